"""What a config asks of its strategy: whether it takes the cell, and in which sizes."""

from __future__ import annotations

from omegaconf import DictConfig
from torch import nn

from components.errors import ConfigError
from components.parallel.base import Cell, Parallel
from components.precision import Precision
from train import sizes
from train.blocks import checkpointing_of


def cell_of(
    config: DictConfig,
    precision: Precision,
    device: str,
    world_size: int,
    local_world_size: int,
    model: nn.Module,
) -> Cell:
    """What a strategy is asked about, with all that the config puts around the model's blocks."""
    return Cell(
        precision=precision,
        device=device,
        world_size=world_size,
        local_world_size=local_world_size,
        model=model,
        checkpointing=checkpointing_of(config),
        compiled=config.compile,
    )


def sizes_of(config: DictConfig, parallel: Parallel, cell: Cell) -> sizes.Sizes:
    """The sizes of a step on a number of ranks, which need not be there.

    Raises:
        ConfigError: when the strategy does not take the cell, or the sizes do not multiply out.
    """
    parallel.check(cell)
    step = sizes.solve(
        config.global_batch_size,
        config.micro_batch_size,
        config.accumulation,
        parallel.dp_degree(cell.world_size),
        parallel.default_accumulation(cell.world_size),
    )
    parallel.check_sizes(cell.world_size, step.micro_batch_size, step.accumulation)
    return step


def refuse_several(parallel: Parallel, world: int, source: str) -> None:
    """Refuse several ranks of a strategy that has one.

    Args:
        source: what asks for `world` of them, in words.

    Raises:
        ConfigError: with what works.
    """
    if parallel.one_process and world > 1:
        raise ConfigError(
            f"parallel={parallel.name} lives in one process, and {source} {world}. "
            f"Nearest: parallel=ddp on {world} ranks, or parallel={parallel.name} with "
            "cluster.nproc_per_node=1 on one node."
        )
