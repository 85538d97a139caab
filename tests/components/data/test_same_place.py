"""Where a run goes on in its data when its global batch has changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from torch.utils.data import IterableDataset

from components.data.base import EpochEnd
from components.data.loader import same_place
from components.data.order import GlobalOrder


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return count()


@pytest.mark.parametrize(
    ("step", "before", "after", "epoch_end", "expected"),
    [
        # 40 samples. The same batch: the same step, wherever it is.
        (7, 8, 8, "drop", 7),
        # 3 steps of 8 are 24 samples: 6 steps of 4, 2 of 12, and 2 of 16 leave 8 out.
        (3, 8, 4, "drop", 6),
        (3, 8, 12, "drop", 2),
        (3, 8, 16, "drop", 2),
        # An epoch has 5 steps of 8, 2 of 16: 7 steps are an epoch and 16 samples of the next.
        (5, 8, 16, "drop", 2),
        (7, 8, 16, "drop", 3),
        # 4 steps of 8 are 32 of the 32 samples that an epoch of 2 steps of 16 has.
        (4, 8, 16, "drop", 2),
        # With the partial window kept, an epoch has 3 steps of 16: 32 samples are 2 of them.
        (4, 8, 16, "partial", 2),
        (5, 8, 16, "partial", 3),
        # 3 of 16, an epoch, are 5 of 8; and 4 of 16 are 2 more.
        (3, 16, 8, "partial", 5),
        (4, 16, 8, "partial", 7),
        (0, 8, 16, "drop", 0),
    ],
)
def test_no_sample_of_the_epoch_comes_again(
    step: int, before: int, after: int, epoch_end: EpochEnd, expected: int
) -> None:
    assert same_place([None] * 40, step, before, after, epoch_end) == expected


@pytest.mark.parametrize(("before", "after"), [(4, 6), (6, 4), (5, 20), (7, 3), (20, 9)])
@pytest.mark.parametrize("epoch_end", ["drop", "partial"])
def test_seen_by_its_samples(before: int, after: int, epoch_end: EpochEnd) -> None:
    old, new = (GlobalOrder(20, size, seed=3, epoch_end=epoch_end) for size in (before, after))
    for step in range(1, 3 * old.steps_per_epoch):
        epoch, _ = old.window(step)
        seen = {
            int(i) for s in range(step) for e, ids in [old.window(s)] if e == epoch for i in ids
        }
        at = same_place([None] * 20, step, before, after, epoch_end)
        there, ids = new.window(at)
        # In the same epoch as long as it has a whole window left, else at the next one's start.
        if there == epoch:
            assert not seen & set(ids.tolist())
            assert len(seen) <= (at % new.steps_per_epoch) * after < len(seen) + after
        else:
            assert (there, at % new.steps_per_epoch) == (epoch + 1, 0)
            assert 20 - len(seen) < max(before, after) or epoch_end == "partial"


def test_a_stream_is_counted_from_its_start() -> None:
    assert same_place(Endless(), 6, 8, 16, "drop") == 3
    assert same_place(Endless(), 5, 8, 16, "drop") == 3
    assert same_place(Endless(), 5, 8, 4, "drop") == 10


def test_the_first_step_from_a_place_on() -> None:
    order = GlobalOrder(40, 16, seed=0)  # windows at 0 and 16
    assert [order.step_at(0, n) for n in (0, 1, 16, 17, 32, 40)] == [0, 1, 1, 2, 2, 2]
    assert order.step_at(3, 16) == 7
    assert [order.place(step) for step in (0, 1, 2, 5)] == [(0, 0), (0, 16), (1, 0), (2, 16)]
