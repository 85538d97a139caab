"""Where a plan takes place: how many ranks, on which devices, with how much memory."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig

from components.cluster.cluster import Cluster, refuse_beyond
from components.cluster.device_memory import rank_memory
from components.device import Device
from components.errors import ConfigError
from train.kinds import build_kind

MARGIN = 0.1
"""Share of a device's memory that a run should leave, for fragments and what is not tensors."""

ELSEWHERE = "0:1"
"""An end point where several nodes would meet; a plan meets nobody."""


@dataclass(frozen=True)
class Place:
    """How many ranks, on what.

    Attributes:
        nodes, per_node: nodes, and ranks on each.
        device_kind: `cuda` or `cpu`.
        device: with its figures; None where none is named.
        memory_bytes: of one rank's device; of a CPU each rank has its share.
        sizes_given: whether the user gave a size of a step.
    """

    nodes: int
    per_node: int
    device_kind: str
    device: Device | None
    memory_bytes: int | None
    sizes_given: bool = False

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.nodes * self.per_node


def place_of(
    config: DictConfig, device: Device | None, one_process: bool, sizes_given: bool
) -> Place:
    """The place that a config's cluster describes.

    Args:
        device: the named one; None plans for this machine.
        one_process: whether the strategy lives in one process.

    Raises:
        ConfigError: when the cluster cannot be.
    """
    node = config.cluster
    nodes = 1 if node.get("nnodes") is None else node.nnodes
    if isinstance(nodes, str):
        raise ConfigError(
            f"cluster.nnodes={nodes}: a plan is for one number of nodes at a time. Give one, or "
            f"several with -m: cluster.nnodes={nodes.replace(':', ',')}."
        )
    if device is not None:
        per_node = node.nproc_per_node
        if per_node == "auto":
            per_node = 1 if one_process else device.per_node
        refuse_beyond("nnodes", nodes)
        refuse_beyond("nproc_per_node", per_node)
        device = device.among(per_node)
        return Place(nodes, per_node, device.kind, device, int(device.memory_bytes), sizes_given)
    cluster: Cluster = build_kind(Cluster, node, "cluster")
    kind = cluster.device_type()
    per_node = cluster.local_world_size(one_process)
    return Place(nodes, per_node, kind, None, rank_memory(kind, per_node), sizes_given)
