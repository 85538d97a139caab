"""Counting what a rank holds, without a trace in what it computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from components.data.batch import Batch
from components.optimizer import build_optimizer
from components.parallel.base import Parallel
from components.precision import Precision
from tests.gang import BF16, FP32, STRATEGIES, alone, prepared
from tests.measured_memory import ADAMW, nano
from train.memory_watch import COUNTED, MemoryWatch, _peak, against_forecast
from train.plan.tracker import Tracker

CPU = torch.device("cpu")


def curve(precision: Precision, watched: bool) -> tuple[list[float], MemoryWatch]:
    torch.manual_seed(0)
    model = nano(layers=2, width=32, time=16, ffn=64, dropout=0.1)
    watch = MemoryWatch(model, CPU, counts=True)
    make = partial(build_optimizer, ADAMW)
    strategy = prepared(STRATEGIES["single"](), model, alone(), make, precision, 1.0)
    take: Callable[[Parallel, list[Batch]], object] = (
        watch.step if watched else lambda parallel, batches: parallel.step(batches)
    )
    losses = []
    for _ in range(COUNTED + 2):
        ids = torch.randint(256, (2, 16))
        losses.append(float(take(strategy, [Batch(ids, ids, 2)]).loss))  # type: ignore[attr-defined]
    strategy.close()
    return losses, watch


@pytest.mark.parametrize("precision", [FP32, BF16], ids=lambda p: p.name)
def test_a_counted_step_is_the_same_to_the_last_bit(precision: Precision) -> None:
    plain, _ = curve(precision, watched=False)
    counted, watch = curve(precision, watched=True)
    assert counted == plain
    assert watch.measured() is not None


def test_what_is_there_already_is_not_training_s() -> None:
    data = torch.zeros(10_000_000)
    _, watch = curve(FP32, watched=True)
    del data
    assert watch.measured() is not None
    assert watch.measured() < 10_000_000


def test_a_step_need_not_be_counted() -> None:
    watch = MemoryWatch(nano(), CPU, counts=False)
    assert watch.measured() is None


def test_sparse_gradients_count_as_what_they_are_made_of() -> None:
    table = nn.Embedding(100, 8, sparse=True)
    tracker = Tracker([])
    with tracker:
        table(torch.tensor([1, 2])).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.is_sparse
    assert _peak(tracker.events, set()) > 0


def test_what_was_there_before_counts_from_the_start() -> None:
    # 10 is there; 20 is seen late, but was there; 5 comes and goes, then 7.
    events = [("+", 0, 10), ("+", 1, 5), ("-", 1, 5), ("+", 2, 20), ("+", 3, 7), ("-", 0, 10)]
    assert _peak(events, before={0, 2}) == 37


def test_a_storage_that_grows_again_counts_with_its_new_size() -> None:
    # Empty before the step, as what FSDP has freed: 30 while it is gathered.
    events = [("+", 0, 0), ("+", 1, 5), ("-", 0, 0), ("+", 0, 30), ("-", 0, 30), ("+", 0, 0)]
    assert _peak(events, before={0}) == 35


def test_the_rank_that_needs_the_most_is_held_against_the_forecast() -> None:
    found = against_forecast({"total_peak": 110}, [100, None, 80])
    assert found == {"forecast_bytes": 110, "measured_bytes": 100, "error": pytest.approx(0.1)}
    assert against_forecast(None, [None])["error"] is None
