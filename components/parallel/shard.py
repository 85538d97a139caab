"""A piece of a named tensor, as one rank holds it: the common tongue of strategies and checkpoints.

Strategies cut tensors in different ways: whole on each rank (DDP, a stage of a
pipeline), by rows (FSDP), by runs of elements that end anywhere (ZeRO). All of
these are boxes of the whole tensor, which is how a checkpoint writes them. So a
piece written by one strategy can be read by any other, and no rank ever needs more
than its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Box:
    """A rectangular part of a tensor: where it starts, and its live elements."""

    offsets: torch.Size
    elements: Tensor


@dataclass(frozen=True, eq=False)
class Shard:
    """What this rank holds of a tensor.

    Attributes:
        shape: of the whole tensor.
        dtype: of its elements.
        boxes: the parts that are here, views of live memory: none where the rank holds nothing.
    """

    shape: torch.Size
    dtype: torch.dtype
    boxes: tuple[Box, ...]

    @classmethod
    def whole(cls, tensor: Tensor) -> Shard:
        """All of `tensor`."""
        tensor = tensor.detach()
        return cls(tensor.shape, tensor.dtype, (Box(torch.Size([0] * tensor.dim()), tensor),))

    @classmethod
    def rows(cls, rows: Tensor, shape: torch.Size, first: int) -> Shard:
        """Consecutive rows of a tensor of `shape`, from row `first`; there may be none."""
        rows = rows.detach()
        offsets = torch.Size([first, *[0] * (len(shape) - 1)])
        return cls(shape, rows.dtype, (Box(offsets, rows),) if rows.numel() else ())

    @classmethod
    def run(cls, elements: Tensor, shape: torch.Size, start: int) -> Shard:
        """Consecutive elements of a tensor of `shape` in row-major order, from element `start`.

        Args:
            elements: one-dimensional and contiguous; there may be none.
        """
        elements = elements.detach()
        boxes, taken = [], 0
        for offsets, sizes in cut(shape, start, start + len(elements)):
            count = math.prod(sizes)
            part = elements[taken : taken + count].view(sizes)
            boxes.append(Box(torch.Size(offsets), part))
            taken += count
        return cls(shape, elements.dtype, tuple(boxes))

    def copied(self) -> Shard:
        """The same in memory of its own, on the CPU: what a later write can take its time over."""
        boxes = (Box(box.offsets, box.elements.to("cpu", copy=True)) for box in self.boxes)
        return Shard(self.shape, self.dtype, tuple(boxes))


def cut(
    shape: Sequence[int], start: int, stop: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Elements `start` to `stop` of a row-major tensor as boxes (offsets, sizes), in their order.

    A run is at most the end of a row, whole rows, and the start of a row, where each row
    is such a tensor again: 2 d - 1 boxes for d dimensions.
    """
    if start >= stop:
        return
    if len(shape) < 2:
        yield ((start,), (stop - start,)) if shape else ((), ())
        return
    row = math.prod(shape[1:])
    first, last = start // row, stop // row
    if start % row:
        end = min(stop, (first + 1) * row)
        yield from _within(shape, first, start - first * row, end - first * row)
        first += 1
    if first < last:
        rest = tuple(shape[1:])
        yield (first, *[0] * len(rest)), (last - first, *rest)
    if first <= last:
        yield from _within(shape, last, 0, stop - last * row)


def _within(
    shape: Sequence[int], index: int, start: int, stop: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The boxes of elements `start` to `stop` of row `index`."""
    for offsets, sizes in cut(shape[1:], start, stop):
        yield (index, *offsets), (1, *sizes)
