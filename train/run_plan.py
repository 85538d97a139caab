"""A run as it will be: what preflight works out, a dry run prints and the ranks read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from torch import nn

from components.cluster.cluster import Cluster
from components.cluster.device_memory import free_host_memory
from train.auto import Choice
from train.forecast import Forecast
from train.sizes import Sizes
from train.units import said


@dataclass(frozen=True)
class Plan:
    """A run as it will be: what `dry_run=true` prints and the workers read.

    Attributes:
        config: the resolved config with every derived number filled in.
        cluster: how ranks are started.
        local_world_size, world_size: ranks on this node, and over all nodes.
        device, backend: `cpu` or `cuda`, `gloo` or `nccl`.
        sizes: of one step.
        parameters: number of the model's parameters, tied ones once.
        precision, parallel: the words on the command line.
        model: on the meta device.
        attempt: which one, and from where, of a run that goes on.
        changes: what it does otherwise than before.
        by_count: the sizes of a step by number of nodes, where nodes may come and go; the other
            attributes then hold for the most nodes.
        forecast: the memory that it will take; None where that is not known.
        unforeseen: why it is not.
        choice: what `parallel=auto` came to; None where a strategy was given.
    """

    config: DictConfig
    cluster: Cluster
    local_world_size: int
    world_size: int
    device: str
    backend: str
    sizes: Sizes
    parameters: int
    precision: str
    parallel: str
    model: nn.Module = field(repr=False)
    attempt: str | None = None
    changes: tuple[str, ...] = ()
    by_count: Mapping[int, Sizes] = field(default_factory=dict)
    forecast: Forecast | None = None
    unforeseen: str = ""
    choice: Choice | None = None

    @property
    def cell(self) -> dict[str, Any]:
        """The point of precision x parallel x cluster (nodes x ranks - device) of the run."""
        return {
            "precision": self.precision,
            "parallel": self.parallel,
            "cluster": f"{self.cluster.nnodes}x{self.local_world_size}-{self.device}",
            "world_size": self.world_size,
        }

    def lines(self) -> list[str]:
        """The plan for a reader, a line for each thing that it fixes."""
        size, config = self.sizes, self.config
        ranks = _several(self.world_size, "rank")
        nodes = _several(self.cluster.nnodes, "node")
        return [
            f"cell        precision={self.precision} parallel={self.parallel}",
            f"ranks       {ranks} on {nodes}, {self.device}, {self.backend}",
            f"model       {self.parameters:,} parameters, float32 masters, "
            f"compute {config.precision.compute_dtype}",
            f"step        global batch {size.global_batch_size} = micro-batch "
            f"{size.micro_batch_size} x accumulation {size.accumulation} x "
            f"{size.dp_size} data-parallel",
            *self._counts(),
            *(f"auto        {line}" for line in (self.choice.lines() if self.choice else [])),
            *self._memory(),
            f"steps       {config.steps}, evaluated every {config.eval_every or config.steps}",
            *([f"attempt     {self.attempt}"] if self.attempt else []),
            *(f"changed     {change}" for change in self.changes),
        ]

    def _counts(self) -> list[str]:
        """What a step is cut into on the fewest nodes, beside the most."""
        if not self.by_count:
            return []
        fewest = min(self.by_count)
        size = self.by_count[fewest]
        return [
            f"nodes       {self.config.cluster.nnodes}, as they come and go; on {fewest}: "
            f"micro-batch {size.micro_batch_size} x accumulation {size.accumulation} x "
            f"{size.dp_size} data-parallel"
        ]

    def _memory(self) -> list[str]:
        if self.forecast is not None:
            return [f"memory      {self.forecast.line()}"]
        return [f"memory      not known: {self.unforeseen}"] if self.unforeseen else []

    def warnings(self) -> list[str]:
        """What a user should know of before it starts."""
        found = self.forecast
        if found is None:
            return []
        told = []
        if found.close or not found.fits:
            what = "is close to" if found.fits else "is more than"
            told.append(
                f"the memory that a rank will hold {what} what there is: {found.line()}. "
                f"{found.cure()}"
            )
        free = free_host_memory() if self.device == "cpu" else None
        if free is not None and found.fits and found.total * self.local_world_size > free:
            told.append(
                f"the ranks here will hold up to {said(found.total * self.local_world_size)}, and "
                f"of this machine's memory {said(free)} are free now: other programs have the rest."
            )
        return told

    def formed(self, nodes: int) -> Plan:
        """The plan of an attempt on so many nodes, with this one as node 0."""
        size = self.by_count[nodes]
        config = self.config.copy()
        with open_dict(config):
            config.micro_batch_size = size.micro_batch_size
            config.accumulation = size.accumulation
            config.cluster.nnodes = nodes
        return replace(
            self,
            config=config,
            cluster=self.cluster.formed(nodes, 0),
            world_size=nodes * self.local_world_size,
            sizes=size,
        )


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


def as_yaml(plan: Plan) -> str:
    """The resolved config as the workers read it."""
    return OmegaConf.to_yaml(plan.config, resolve=True)
