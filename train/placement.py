"""How many ranks there are and where, whoever starts them."""

from __future__ import annotations

from omegaconf import DictConfig, open_dict

from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.errors import ConfigError
from train.targets import build


def placed(
    cluster: Cluster, node: DictConfig, one_process: bool, joined: Joined | None
) -> tuple[Cluster, int, int]:
    """The cluster with the number of nodes that holds, ranks on this node, and ranks in all.

    Args:
        node: the config that describes the cluster.
        one_process: whether the strategy lives in one process.
        joined: the gang that an outside launcher has started; None when we start it.

    Raises:
        ConfigError: when more GPUs are asked for than there are, or the launcher has started
            something else than the config says.
    """
    if joined is not None and cluster.elastic:
        raise ConfigError(
            f"cluster.nnodes={node.nnodes} under {joined.launcher}, which fixes the processes of a "
            "run. For nodes that come and go start one command on each node, without a launcher "
            f"of ranks; under {joined.launcher} leave cluster.nnodes out."
        )
    if joined is None:
        local = cluster.local_world_size(one_process)
        return cluster, local, local * cluster.nnodes
    local = joined.local_world_size
    if node.nproc_per_node not in ("auto", local):
        raise ConfigError(
            f"cluster.nproc_per_node={node.nproc_per_node}, but {joined.launcher} started {local} "
            f"processes on this node. Leave cluster.nproc_per_node=auto under {joined.launcher}, "
            f"or have it start {node.nproc_per_node}."
        )
    if cluster.max_restarts:
        raise ConfigError(
            f"cluster.max_restarts={cluster.max_restarts} under {joined.launcher}, which alone "
            "can start its processes again. Set cluster.max_restarts=0; torchrun has "
            "--max-restarts, and a Slurm job can be requeued."
        )
    return _with_nodes(cluster, node, joined), local, joined.world_size


def _with_nodes(cluster: Cluster, node: DictConfig, joined: Joined) -> Cluster:
    """The cluster with the nodes that the outside launcher started, unless the config denies it."""
    if node.get("nnodes", joined.nnodes) != joined.nnodes:
        raise ConfigError(
            f"cluster.nnodes={cluster.nnodes}, but {joined.launcher} started the run on "
            f"{joined.nnodes}. Drop cluster.nnodes under {joined.launcher}, or have it start "
            f"{cluster.nnodes}."
        )
    node = node.copy()
    with open_dict(node):
        node.nnodes, node.node_rank = joined.nnodes, 0
        node.rdzv_endpoint = f"{joined.host}:{joined.port}"
    built: Cluster = build(node, "cluster")
    return built
