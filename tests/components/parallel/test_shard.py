"""Runs of elements as boxes, and what a piece of a tensor holds."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from components.parallel.shard import Shard, cut

BY_HAND = [
    # Nothing; a scalar; a vector.
    ((4, 3), 5, 5, []),
    ((), 0, 1, [((), ())]),
    ((7,), 2, 6, [((2,), (4,))]),
    # 4 x 3, rows 0 1 2 | 3 4 5 | 6 7 8 | 9 10 11.
    ((4, 3), 0, 12, [((0, 0), (4, 3))]),
    ((4, 3), 3, 9, [((1, 0), (2, 3))]),
    ((4, 3), 1, 2, [((0, 1), (1, 1))]),
    ((4, 3), 1, 8, [((0, 1), (1, 2)), ((1, 0), (1, 3)), ((2, 0), (1, 2))]),
    ((4, 3), 2, 4, [((0, 2), (1, 1)), ((1, 0), (1, 1))]),
    # 2 x 2 x 3: the end of one half, the start of the other, each as in two dimensions.
    (
        (2, 2, 3),
        1,
        11,
        [
            ((0, 0, 1), (1, 1, 2)),
            ((0, 1, 0), (1, 1, 3)),
            ((1, 0, 0), (1, 1, 3)),
            ((1, 1, 0), (1, 1, 2)),
        ],
    ),
]


@pytest.mark.parametrize(("shape", "start", "stop", "boxes"), BY_HAND)
def test_a_run_as_boxes(
    shape: tuple[int, ...],
    start: int,
    stop: int,
    boxes: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    assert list(cut(shape, start, stop)) == boxes


@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 2), (1, 1, 4), (3, 1, 2), (2, 2, 2, 2)])
def test_every_run_is_covered_once_in_order(shape: tuple[int, ...]) -> None:
    whole = torch.arange(math.prod(shape)).view(shape)
    for start, stop in itertools.combinations(range(whole.numel() + 1), 2):
        elements: list[int] = []
        boxes = list(cut(shape, start, stop))
        for offsets, sizes in boxes:
            part = whole
            for dim, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
                part = part.narrow(dim, offset, size)
            elements += part.flatten().tolist()
        assert elements == list(range(start, stop))
        assert len(boxes) <= 2 * len(shape) - 1


def test_the_boxes_of_a_run_are_live_views() -> None:
    flat = torch.arange(7.0)
    shard = Shard.run(flat, torch.Size([4, 3]), 1)
    assert [box.offsets for box in shard.boxes] == [(0, 1), (1, 0), (2, 0)]
    assert [box.elements.tolist() for box in shard.boxes] == [[[0, 1]], [[2, 3, 4]], [[5, 6]]]
    shard.boxes[1].elements.fill_(9.0)
    assert flat.tolist() == [0, 1, 9, 9, 9, 5, 6]


def test_rows_and_none_of_them() -> None:
    some = Shard.rows(torch.ones(2, 3), torch.Size([5, 3]), 3)
    assert [(box.offsets, box.elements.shape) for box in some.boxes] == [((3, 0), (2, 3))]
    assert Shard.rows(torch.ones(0, 3), torch.Size([5, 3]), 5).boxes == ()
    assert Shard.run(torch.ones(0), torch.Size([5, 3]), 15).boxes == ()


def test_a_copy_does_not_follow() -> None:
    live = torch.nn.Parameter(torch.zeros(2))
    shard = Shard.whole(live)
    copy = shard.copied()
    with torch.no_grad():
        live.add_(1.0)
    assert shard.boxes[0].elements.tolist() == [1, 1]
    assert copy.boxes[0].elements.tolist() == [0, 0]
    assert not shard.boxes[0].elements.requires_grad
