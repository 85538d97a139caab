"""Everything that can be known to be wrong before a process starts."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.data.base import Data
from components.errors import ConfigError
from components.logger.base import Logger
from components.objective import Objective, objective_of
from components.optimizer import build_optimizer
from components.parallel.activation_checkpointing import checkpoint_blocks
from components.parallel.base import Cell, Parallel, refuse_half_parameters
from components.precision import Precision
from train import sizes
from train.locate import message
from train.targets import build

SCHEDULED = 10_000
"""Steps of the schedule tried in advance, at the most: some 20 microseconds each."""

MISUSE = (
    ValueError,
    TypeError,
    RuntimeError,
    ArithmeticError,
    LookupError,
    AttributeError,
    AssertionError,
)
"""What torch raises for settings that an optimizer or a scheduler cannot have."""


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
        preload: modules that ranks need and that are worth importing once, before they fork.
    """

    config: DictConfig
    cluster: Cluster
    local_world_size: int
    world_size: int
    device: str
    backend: str
    sizes: sizes.Sizes
    parameters: int
    precision: str
    parallel: str
    preload: tuple[str, ...]

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
            f"steps       {config.steps}, evaluated every {config.eval_every or config.steps}",
        ]


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


def preflight(config: DictConfig, joined: Joined | None, folder: Path) -> Plan:
    """Check a composed config, and work out what it leaves open.

    Builds every component but the data set's content: options are checked by
    their constructors, the model stands on the meta device.

    Args:
        config: resolved, every `_target_` checked already.
        joined: the gang that an outside launcher has started; None when we start it.
        folder: where the run will land, for the space on its disk.

    Raises:
        ConfigError: for the first thing that cannot be.
    """
    cluster: Cluster = _of_kind(Cluster, config.cluster, "cluster")
    precision: Precision = _of_kind(Precision, config.precision, "precision")
    parallel: Parallel = _of_kind(Parallel, config.parallel, "parallel")
    _of_kind(Data, config.data, "data")
    checkpoint = build(config.checkpoint, "checkpoint")
    _must_have(checkpoint, ("finish",), config.checkpoint, "checkpoint")
    loggers = build_loggers(config)
    model = _on_meta(config)
    refuse_half_parameters(model, precision)
    _check_optimizer(config, model, cluster.device_type())

    cluster, local_world_size, world_size = _ranks(cluster, parallel, config, joined)
    device = cluster.device_type()
    parallel.check(
        Cell(
            precision=precision,
            device=device,
            world_size=world_size,
            local_world_size=local_world_size,
            model=model,
            activation_checkpointing=config.activation_checkpointing,
        )
    )
    step = sizes.solve(
        config.global_batch_size,
        config.micro_batch_size,
        config.accumulation,
        parallel.dp_degree(world_size),
        parallel.default_accumulation(world_size),
    )
    parallel.check_sizes(world_size, step.micro_batch_size, step.accumulation)
    parameters = sum(p.numel() for p in model.parameters())
    _check_disk(folder, parameters)

    config = config.copy()
    with open_dict(config):
        config.global_batch_size = step.global_batch_size
        config.micro_batch_size = step.micro_batch_size
        config.accumulation = step.accumulation
        config.cluster.nproc_per_node = local_world_size
        config.cluster.nnodes = cluster.nnodes
    return Plan(
        config=config,
        cluster=cluster,
        local_world_size=local_world_size,
        world_size=world_size,
        device=device,
        backend=cluster.backend_name(),
        sizes=step,
        parameters=parameters,
        precision=precision.name,
        parallel=parallel.name,
        preload=_preload(config, loggers),
    )


def _preload(config: DictConfig, loggers: list[Logger]) -> tuple[str, ...]:
    """The project's own modules behind this config, and what its loggers ask for.

    A user's module is left out: what its import does must not happen in the fork server.
    """
    targets = [config[group]._target_ for group in ("parallel", "model", "data")]
    own = [name.rpartition(".")[0] for name in targets if name.startswith("components.")]
    return (*own, *(module for logger in loggers for module in logger.preload))


def build_loggers(config: DictConfig) -> list[Logger]:
    """The sinks that the `logger` group names."""
    nodes = {name: node for name, node in config.logger.items() if node is not None}
    return [_of_kind(Logger, node, f"logger.{name}") for name, node in nodes.items()]


def build_objective(config: DictConfig, model: nn.Module) -> Objective:
    """The chosen objective, or the model's own."""
    node = config.get("objective")
    if node is None:
        return objective_of(model)
    chosen: Objective = build(node, "objective")
    _must_have(chosen, ("count", "loss_sum", "metrics"), node, "objective")
    return chosen


def _of_kind(kind: type, node: DictConfig, key: str) -> Any:
    made = build(node, key)
    if not isinstance(made, kind):
        raise _wrong_kind(made, node, key, f"{kind.__module__}.{kind.__qualname__}")
    return made


def _must_have(made: object, methods: tuple[str, ...], node: DictConfig, key: str) -> None:
    """As `_of_kind`, for what is known by its methods and not by a base class."""
    absent = [name for name in methods if not callable(getattr(made, name, None))]
    if absent:
        raise _wrong_kind(made, node, key, f"class with {', '.join(methods)}")


def _wrong_kind(made: object, node: DictConfig, key: str, wanted: str) -> ConfigError:
    role = "logger" if key.startswith("logger.") else key
    return ConfigError(
        f"{key}._target_={node._target_} gives a {type(made).__name__}; "
        f"{'an' if role[0] in 'aeiou' else 'a'} {role} is a {wanted}."
    )


def _on_meta(config: DictConfig) -> nn.Module:
    """The model without data: its shapes, dtypes and blocks, at no cost in memory."""
    with torch.device("meta"):
        model: nn.Module = _of_kind(nn.Module, config.model, "model")
    lazy = [name for name, p in model.named_parameters() if is_lazy(p)]
    if lazy:
        raise ConfigError(
            f"model._target_={config.model._target_} has parameters without a shape "
            f"({', '.join(lazy[:3])}), as torch's lazy modules do until their first forward. "
            "Give the modules their sizes: nn.Linear(in_features, ...), not nn.LazyLinear(...)."
        )
    build_objective(config, model)
    checkpoint_blocks(model, config.activation_checkpointing)
    return model


def _check_optimizer(config: DictConfig, model: nn.Module, device: str) -> None:
    """Let the optimizer and the scheduler refuse their settings on a stand-in for the model.

    Some settings are found wrong by the first steps only (an optimizer that wants a closure),
    some by the last ones (a schedule that is shorter than the run): both are taken.
    """
    named = [
        (name, nn.Parameter(torch.zeros([1] * p.dim()), requires_grad=p.requires_grad))
        for name, p in model.named_parameters()
    ]
    factory = build(config.optimizer, "optimizer")
    optimizer = _refusing(partial(build_optimizer, factory, named), "optimizer", config.optimizer)
    schedule = build(config.scheduler, "scheduler")
    scheduler = _refusing(partial(schedule, optimizer), "scheduler", config.scheduler)
    for _, parameter in named:
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if _steps_anywhere(optimizer, device):
            _refusing(partial(_repeat, optimizer.step, 3), "optimizer", config.optimizer)
        steps = min(config.steps, SCHEDULED)
        _refusing(partial(_repeat, scheduler.step, steps), "scheduler", config.scheduler)


def _steps_anywhere(optimizer: Optimizer, device: str) -> bool:
    """Whether the stand-in, which lives on the CPU, tells anything about steps on `device`."""
    if device == "cpu":
        return True
    own = type(optimizer).__module__.startswith("torch.optim.")
    return own and not any(group.get("capturable") for group in optimizer.param_groups)


def _repeat(step: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        step()


def _refusing(make: Any, key: str, node: DictConfig) -> Any:
    try:
        return make()
    except MISUSE as error:
        raise ConfigError(
            f"{key}._target_={node._target_} refuses its settings: {message(error)}"
        ) from error


def _ranks(
    cluster: Cluster, parallel: Parallel, config: DictConfig, joined: Joined | None
) -> tuple[Cluster, int, int]:
    """The cluster with the number of nodes that holds, ranks on this node, and ranks in all."""
    asked = config.cluster.nproc_per_node
    if joined is None:
        local = cluster.local_world_size(parallel.one_process)
        world = local * cluster.nnodes
    else:
        local, world = joined.local_world_size, joined.world_size
        if asked not in ("auto", local):
            raise ConfigError(
                f"cluster.nproc_per_node={asked}, but {joined.launcher} started {local} processes "
                f"on this node. Leave cluster.nproc_per_node=auto under {joined.launcher}, or have "
                f"it start {asked}."
            )
        cluster = _with_nodes(cluster, config, joined)
    if parallel.one_process and world > 1:
        source = f"{joined.launcher} started" if joined else f"cluster.nproc_per_node={asked} and "
        source = source if joined else f"{source}cluster.nnodes={cluster.nnodes} ask for"
        raise ConfigError(
            f"parallel={parallel.name} lives in one process, and {source} {world}. "
            f"Nearest: parallel=ddp on {world} ranks, or parallel={parallel.name} with "
            "cluster.nproc_per_node=1."
        )
    return cluster, local, world


def _with_nodes(cluster: Cluster, config: DictConfig, joined: Joined) -> Cluster:
    """The cluster with the nodes that the outside launcher started, unless the config denies it."""
    if cluster.nnodes not in (1, joined.nnodes):
        raise ConfigError(
            f"cluster.nnodes={cluster.nnodes}, but {joined.launcher} started the run on "
            f"{joined.nnodes}. Drop cluster.nnodes under {joined.launcher}, or have it start "
            f"{cluster.nnodes}."
        )
    node = config.cluster.copy()
    with open_dict(node):
        node.nnodes, node.node_rank = joined.nnodes, 0
        node.rdzv_endpoint = f"{joined.host}:{joined.port}"
    built: Cluster = build(node, "cluster")
    return built


def _check_disk(folder: Path, parameters: int) -> None:
    """The folder must take files and, at least, the final weights must fit."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ConfigError(
            f"hydra.run.dir={folder}: nothing can be written in {existing} ({error.strerror}). "
            "Set hydra.run.dir to a folder of yours."
        ) from error
    free, needed = shutil.disk_usage(existing).free, 4 * parameters
    if free < needed:
        raise ConfigError(
            f"hydra.run.dir={folder}: its disk has {free / 1e9:.2f} GB free, and the weights of "
            f"{parameters:,} parameters alone take {needed / 1e9:.2f} GB. Make room, or set "
            "hydra.run.dir to another disk."
        )


def as_yaml(plan: Plan) -> str:
    """The resolved config as the workers read it."""
    return OmegaConf.to_yaml(plan.config, resolve=True)
