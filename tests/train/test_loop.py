"""The order of a run's events and its ends, with a strategy that only says what happened."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from components.data.batch import Batch
from components.parallel.base import Step, Sums
from train.loop import Diverged, Loop, Progress
from train.meter import Meter, Scale


class Told:
    """Takes its steps and evaluations from lists."""

    def __init__(self, applied: Iterable[bool], losses: Iterable[float], evaluations: Any) -> None:
        self.steps = zip(applied, losses, strict=False)
        self.evaluations = iter(evaluations)

    def step(self, micro_batches: list[Batch]) -> Step:
        applied, loss = next(self.steps)
        return Step(torch.tensor(loss), torch.tensor(1.0), applied, 1024.0)

    def evaluate(self, micro_batches: Iterable[Batch]) -> Sums:
        sums = Sums()
        sums.add("loss", next(self.evaluations), 1)
        sums.add("accuracy", 1.0, 2)
        sums.add("error", 1.0, 4)
        return sums


class Schedule:
    moves = 0

    def step(self) -> None:
        self.moves += 1

    def get_last_lr(self) -> list[float]:
        return [0.5**self.moves]


Make = Callable[..., tuple[Loop, list[dict[str, Any]]]]


@pytest.fixture
def make() -> Make:
    def build(
        applied: Iterable[bool] = itertools.repeat(True),
        losses: Iterable[float] = itertools.repeat(1.0),
        evaluations: Iterable[float] = itertools.repeat(1.0),
        valid: Iterable[int] = itertools.repeat(2),
        **settings: Any,
    ) -> tuple[Loop, list[dict[str, Any]]]:
        records: list[dict[str, Any]] = []
        rows = iter(valid)
        batches = (
            [Batch(torch.zeros(2, 1), torch.zeros(2), next(rows))] for _ in itertools.count()
        )
        options = {"steps": 4, "log_every": 1, "eval_every": 0, "max_skips": None, "patience": None}
        loop = Loop(
            parallel=Told(applied, losses, evaluations),  # type: ignore[arg-type]
            scheduler=Schedule(),  # type: ignore[arg-type]
            batches=batches,
            validation=list,
            derive=lambda means: {"twice": 2 * means["loss"]},
            meter=Meter(Scale(), lambda samples: samples),
            report=records.append,
            on_update=lambda: None,
            progress=Progress(),
            **{**options, **settings},
        )
        return loop, records

    return build


def _training(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in records if "train/loss" in record]


def test_a_skipped_step_leaves_the_schedule_where_it_is(make: Make) -> None:
    loop, records = make(applied=[False, True, True, True], max_skips=10)
    loop.run()
    training = _training(records)
    assert [record["lr"] for record in training] == [1.0, 0.5, 0.25, 0.125]
    assert [record["skipped_steps"] for record in training] == [1, 1, 1, 1]
    assert loop.meter.updates == 3


def test_a_run_that_never_changed_the_weights_has_failed(make: Make) -> None:
    loop, _ = make(applied=[False] * 4, max_skips=10)
    loop.run()
    with pytest.raises(Diverged, match="none of the 4 steps changed the weights"):
        loop.check_trained()


def test_a_validation_loss_that_is_not_finite_ends_the_run(make: Make) -> None:
    loop, records = make(evaluations=[math.nan])
    with pytest.raises(Diverged, match="validation loss is nan at step 4"):
        loop.run()
    assert math.isnan(records[-1]["val/loss"])


def test_patience_ends_the_run_and_the_last_window_is_recorded(make: Make) -> None:
    loop, records = make(
        steps=9, log_every=100, eval_every=1, evaluations=[3.0, 2.0, 2.5, 2.1], patience=2
    )
    loop.run()
    assert loop.step == 4
    assert "2 evaluations" in (loop.stopped_early() or "")
    assert [record["step"] for record in _training(records)] == [4]


def test_rates_count_the_samples_that_there_were(make: Make) -> None:
    loop, records = make(valid=[2, 1, 2, 1], log_every=2)
    loop.run()
    for record in _training(records):
        assert record["samples_per_s"] * record["step_time_s"] * 2 == pytest.approx(3)
    assert records[-2]["samples"] == 6


def test_which_way_a_metric_is_better(make: Make) -> None:
    loop, records = make(lower_is_better=("error",))
    loop.run()
    assert loop.higher_is_better == {"val/accuracy"}
    assert records[-1]["val/twice"] == 2.0
    assert records[-1]["val/error"] == 0.25
