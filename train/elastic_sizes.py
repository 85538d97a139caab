"""The sizes of a step on every number of nodes that an elastic run may come to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from omegaconf import DictConfig

from components.checkpoint.checkpoint import Checkpoint
from components.cluster.cluster import Cluster
from components.errors import ConfigError
from components.parallel.base import Cell, Parallel
from train.sizes import Sizes, solve

FAR = 4
"""A global batch more than so many times the one that was asked for is not proposed."""

SHOWN = 4
"""Numbers of nodes that a refusal explains."""


def check_elastic(cluster: Cluster, checkpoint: Checkpoint, config: DictConfig) -> None:
    """Refuse what cannot go on after nodes have come or gone.

    Raises:
        ConfigError: naming the key at fault and the cure.
    """
    asked = f"cluster.nnodes={config.cluster.nnodes}"
    if not checkpoint.enabled:
        raise ConfigError(
            f"{asked} with checkpoint.keep_last=0: when nodes come or go the run goes on from a "
            "checkpoint, and none is written. Set checkpoint.keep_last=1 or more, or give one "
            f"number of nodes, as in cluster.nnodes={cluster.nnodes}."
        )
    if config.global_batch_size is None:
        raise ConfigError(
            f"{asked} with global_batch_size=null: the global batch has to stay the same on any "
            "number of nodes. Give it, as in global_batch_size=32, and leave micro_batch_size or "
            "accumulation at null."
        )
    if config.micro_batch_size is not None and config.accumulation is not None:
        raise ConfigError(
            f"{asked} with micro_batch_size={config.micro_batch_size} and accumulation="
            f"{config.accumulation}: together they give another global batch on each number of "
            "nodes. Set one of them to null."
        )


def sizes_by_count(
    config: DictConfig, parallel: Parallel, cell: Cell, cluster: Cluster
) -> dict[int, Sizes]:
    """The sizes of a step by number of nodes, from the fewest to the most.

    The global batch is the same on all of them. Of the other two sizes the one that the config
    leaves open makes up for the ranks; where it leaves both, the micro-batch is at most that on
    the most nodes, so that it fits into memory on fewer too.

    Args:
        cell: on the most nodes.

    Raises:
        ConfigError: when the run cannot be on some of these numbers; the message has them all,
            and the nearest that can.
    """
    counts = range(cluster.min_nnodes, cluster.nnodes + 1)
    ranks = {nodes: nodes * cell.local_world_size for nodes in counts}
    asked = f"cluster.nnodes={config.cluster.nnodes}"
    for nodes in counts:
        with _told_of(nodes, asked):
            parallel.check(replace(cell, world_size=ranks[nodes]))
    degrees = {nodes: parallel.dp_degree(ranks[nodes]) for nodes in counts}
    given = config.micro_batch_size or config.accumulation
    units = {nodes: degree * (given or 1) for nodes, degree in degrees.items()}
    if given is None:
        units[cluster.nnodes] *= parallel.default_accumulation(ranks[cluster.nnodes])
    if any(config.global_batch_size % unit for unit in units.values()):
        raise ConfigError(_indivisible(asked, config.global_batch_size, units, degrees))
    largest = config.global_batch_size // units[cluster.nnodes]
    sizes = {}
    for nodes in counts:
        step = _solved(config, degrees[nodes], largest)
        with _told_of(nodes, asked):
            parallel.check_sizes(ranks[nodes], step.micro_batch_size, step.accumulation)
        sizes[nodes] = step
    return sizes


@contextmanager
def _told_of(nodes: int, asked: str) -> Iterator[None]:
    """Inside, a refusal names the number of nodes that it holds for."""
    try:
        yield
    except ConfigError as refusal:
        many = "s" if nodes > 1 else ""
        raise ConfigError(f"{asked}, on {nodes} node{many}: {refusal}") from refusal


def _solved(config: DictConfig, degree: int, largest: int) -> Sizes:
    """The sizes on one number of nodes.

    Args:
        largest: the micro-batch on the most nodes.
    """
    batch, micro, accumulation = (
        config.global_batch_size,
        config.micro_batch_size,
        config.accumulation,
    )
    if micro is None and accumulation is None:
        share = batch // degree
        micro = next(size for size in range(min(largest, share), 0, -1) if share % size == 0)
    return solve(batch, micro, accumulation, degree)


def _indivisible(
    asked: str, batch: int, units: Mapping[int, int], degrees: Mapping[int, int]
) -> str:
    """The message for a global batch that some numbers of nodes cannot keep.

    Args:
        units: what the global batch has to be a multiple of, by number of nodes.
        degrees: data-parallel ranks by number of nodes.
    """
    bad = [nodes for nodes, unit in units.items() if batch % unit]
    good = [nodes for nodes in units if nodes not in bad]
    shown = ", ".join(
        f"{nodes} (a multiple of {units[nodes]} is needed: {degrees[nodes]} data-parallel "
        f"rank{'s' if degrees[nodes] > 1 else ''} x {units[nodes] // degrees[nodes]})"
        for nodes in bad[:SHOWN]
    )
    more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
    can = f"It can on {_runs(good)}." if good else "It can on none."
    return (
        f"{asked}: the global batch stays the same on any number of nodes, and global_batch_size="
        f"{batch} cannot be cut for {shown}{more}. {can} Nearest: {_nearest(batch, units, good)}."
    )


def _nearest(batch: int, units: Mapping[int, int], good: Sequence[int]) -> str:
    every = math.lcm(*units.values())
    low = batch // every * every
    sizes = [size for size in (low, low + every) if size and size <= FAR * batch]
    words = [f"global_batch_size={size}" for size in sizes]
    if good:
        longest = max(_consecutive(good), key=len)
        span = f"{longest[0]}:{longest[-1]}" if len(longest) > 1 else f"{longest[0]}"
        words.append(f"cluster.nnodes={span}")
    return " or ".join(words) or "a range with fewer numbers in it"


def _runs(numbers: Sequence[int]) -> str:
    """As in `1 to 4, 6`."""
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in _consecutive(numbers)
    )


def _consecutive(numbers: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs
