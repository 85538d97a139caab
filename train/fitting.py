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
class Here:
    """Where a run takes place, and the sizes of a step there.

    Attributes:
        device: `cuda` or `cpu`.
        nodes: the fewest, where they come and go.
        elastic: whether they do.
    """

    device: str
    local_world_size: int
    nodes: int
    step: Sizes
    elastic: bool = False

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.local_world_size * self.nodes


@dataclass(frozen=True)
class Tight:
    """What does not fit, in its user's words."""

    precision: str
    parallel: str
    checkpointing: str
    here: Here


def too_large(cell: Tight, found: Forecast, attempt: Try) -> str:
    """Why a run does not fit, in one message, with the nearest cells that do."""
    parts = sorted(found.parts.items(), key=lambda part: -part[1])
    held = ", ".join(f"{name} {said(size)}" for name, size in parts if size >= 0.01 * found.total)
    here = cell.here
    rank = "a GPU" if here.device == "cuda" else "the machine"
    if here.device == "cpu" and here.local_world_size > 1:
        rank = f"each of {here.local_world_size} ranks of the machine"
    near = [f"{' '.join(words)} ({said(other.total)})" for words, other in _nearest(cell, attempt)]
    cure = f"Nearest that fit: {'; '.join(near)}." if near else "No strategy here fits it."
    return (
        f"parallel={cell.parallel} precision={cell.precision} "
        f"micro_batch_size={here.step.micro_batch_size}: a rank will hold {said(found.total)} at "
        f"the peak ({found.moment}: {held}), and {rank} has {said(found.memory)}. {cure} "
        "memory_check=warn tries it all the same."
    )


def _nearest(cell: Tight, attempt: Try) -> list[tuple[list[str], Forecast]]:
    """Of each kind of change the least one that fits, with room to spare where one has that."""
    near: list[tuple[list[str], Forecast]] = []
    for kind in (_smaller(cell), _recomputed(cell), _sharded(cell)):
        close = None
        for words in kind:
            other = attempt(words)
            if other is None or not other.fits:
                continue
            if not other.close:
                near.append((words, other))
                break
            close = close or (words, other)
        else:
            near += [close] if close else []
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
    size, elastic = cell.here.step, cell.here.elastic
    rest = size.global_batch_size // size.dp_size
    for micro in range(size.micro_batch_size // 2, 0, -1):
        if rest % micro == 0:
            # Where nodes come and go accumulation follows from their number.
            accumulation = "null" if elastic else rest // micro
            yield [f"micro_batch_size={micro}", f"accumulation={accumulation}"]


def _recomputed(cell: Tight) -> Iterator[list[str]]:
    if cell.checkpointing == "none":
        yield ["model.checkpointing=full"]


def _sharded(cell: Tight) -> Iterator[list[str]]:
    if cell.here.world_size > 1:
        for word in SHARDED:
            if word != cell.parallel:
                yield [f"parallel={word}"]
