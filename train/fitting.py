"""A run that its devices have no room for is refused before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from train.forecast import Forecast
from train.sizes import Sizes
from train.units import said

SHARDED = ("fsdp", "zero3", "zero2", "pipeline")
"""Strategies that are proposed, in this order, for what is too large."""

TOLD = 3
"""Cells that a refusal proposes at the most."""

Try = Callable[[list[str]], Forecast | None]
"""The forecast of the same run with some other overrides; None where it cannot be."""


@dataclass(frozen=True)
class Tight:
    """What is looked at, as its user wrote it.

    Attributes:
        precision, parallel, checkpointing: the words.
        sizes: of a step.
        device: `cuda` or `cpu`.
        world_size, local_world_size: ranks, and those on this node.
        elastic: whether nodes come and go; the ranks are those of the fewest.
    """

    precision: str
    parallel: str
    checkpointing: str
    sizes: Sizes
    device: str
    world_size: int
    local_world_size: int
    elastic: bool = False


def too_large(cell: Tight, found: Forecast, attempt: Try) -> str:
    """Why a run does not fit, in one message, with the nearest cells that do."""
    parts = sorted(found.parts.items(), key=lambda part: -part[1])
    held = ", ".join(f"{name} {said(size)}" for name, size in parts if size >= 0.01 * found.total)
    rank = "a GPU" if cell.device == "cuda" else "the machine"
    if cell.device == "cpu" and cell.local_world_size > 1:
        rank = f"each of {cell.local_world_size} ranks of the machine"
    near = [f"{' '.join(words)} ({said(other.total)})" for words, other in _nearest(cell, attempt)]
    cure = f"Nearest that fit: {'; '.join(near)}." if near else "No strategy here fits it."
    return (
        f"parallel={cell.parallel} precision={cell.precision} "
        f"micro_batch_size={cell.sizes.micro_batch_size}: a rank will hold {said(found.total)} at "
        f"the peak ({found.moment}: {held}), and {rank} has {said(found.memory)}. {cure} "
        "memory_check=warn tries it all the same."
    )


def _nearest(cell: Tight, attempt: Try) -> list[tuple[list[str], Forecast]]:
    """Of each kind of change the first that fits: the least change first."""
    near: list[tuple[list[str], Forecast]] = []
    for kind in (_smaller(cell), _recomputed(cell), _sharded(cell)):
        for words in kind:
            other = attempt(words)
            if other is not None and other.fits:
                near.append((words, other))
                break
    if near:
        return near[:TOLD]
    smallest = list(_smaller(cell))[-1:] or [[]]
    for words in _sharded(cell):
        both = [*words, *next(_recomputed(cell), []), *smallest[0]]
        other = attempt(both)
        if other is not None and other.fits:
            return [(both, other)]
    return []


def _smaller(cell: Tight) -> Iterator[list[str]]:
    """The same global batch in smaller micro-batches."""
    size, rest = cell.sizes, cell.sizes.global_batch_size // cell.sizes.dp_size
    for micro in range(size.micro_batch_size // 2, 0, -1):
        if rest % micro == 0:
            # Where nodes come and go accumulation follows from their number.
            accumulation = "null" if cell.elastic else rest // micro
            yield [f"micro_batch_size={micro}", f"accumulation={accumulation}"]


def _recomputed(cell: Tight) -> Iterator[list[str]]:
    if cell.checkpointing == "none":
        yield ["model.checkpointing=full"]


def _sharded(cell: Tight) -> Iterator[list[str]]:
    if cell.world_size > 1:
        for word in SHARDED:
            if word != cell.parallel:
                yield [f"parallel={word}"]
