"""The order of a run's events and its ends, with a strategy that only says what happened."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from components.data.batch import Batch
from components.errors import ConfigError
from components.parallel.base import Step, Sums
from components.parallel.gate import Gate, Verdict
from train.divergence import Diverged
from train.loop import Loop, Progress
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


SPIKE = Verdict("spike", "the loss is 9")
NONFINITE = Verdict("nonfinite", "the loss is nan")


def found(loop: Loop, verdicts: dict[int, Verdict]) -> None:
    """Have the gate say something of some steps, counted from 1."""
    step = loop.parallel.step

    def judged(micro_batches: list[Batch]) -> Step:
        loop.gate.admits(torch.tensor(1.0), torch.tensor(1.0))
        loop.gate.verdict = verdicts.get(loop.step + 1)
        return step(micro_batches)

    loop.parallel.step = judged  # type: ignore[method-assign]


def test_a_spike_is_skipped_with_a_word_and_the_schedule_waits(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    loop, records = make([True, False, True, True], max_skips=3, gate=Gate(on_spike="skip"))
    found(loop, {2: SPIKE})
    loop.run()
    training = _training(records)
    assert [record["lr"] for record in training] == [0.5, 0.5, 0.25, 0.125]
    assert [record["skipped_steps"] for record in training] == [0, 1, 1, 1]
    assert [r.getMessage() for r in caplog.records] == ["step 2 is skipped: the loss is 9"]


def test_a_spike_that_is_warned_of_is_applied(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    loop, records = make(gate=Gate(on_spike="warn"))
    found(loop, {3: SPIKE})
    loop.run()
    assert [record["skipped_steps"] for record in _training(records)] == [0] * 4
    assert [r.getMessage() for r in caplog.records] == ["step 3: the loss is 9"]


@pytest.mark.parametrize(("gate", "verdict"), [(Gate(), NONFINITE), (Gate(on_spike="stop"), SPIKE)])
def test_a_step_that_ends_the_run_is_recorded_and_named(
    make: Make, gate: Gate, verdict: Verdict
) -> None:
    loop, records = make([True, False], gate=gate)
    found(loop, {2: verdict})
    with pytest.raises(Diverged, match=f"step 2 would have .* not applied: {verdict.cause}. Lower"):
        loop.run()
    assert [record["step"] for record in _training(records)] == [1, 2]
    assert loop.meter.updates == 1


def test_too_many_skipped_in_a_row_end_the_run(make: Make) -> None:
    loop, _ = make([True, False, False], max_skips=2, gate=Gate(on_nonfinite="skip"))
    found(loop, {2: NONFINITE, 3: NONFINITE})
    with pytest.raises(Diverged, match="2 steps in a row were skipped, up to step 3; the last one"):
        loop.run()


def test_a_strategy_that_skips_by_itself_ends_a_run_that_is_not_scaled(make: Make) -> None:
    loop, _ = make([False])
    with pytest.raises(Diverged, match="step 1 would have ruined the weights"):
        loop.run()


def test_ruined_weights_are_not_saved(make: Make) -> None:
    loop, _ = make()
    loop.check_finite()  # before the first step
    loop._norm = torch.tensor(math.nan)
    with pytest.raises(Diverged, match="the gradient norm is nan at step 0, which is not saved"):
        loop.check_finite()


def test_a_strategy_that_does_not_ask_is_refused_where_something_is_to_be_kept_out(
    make: Make,
) -> None:
    loop, _ = make(gate=Gate(on_spike="warn"))
    loop.parallel.name = "mine"
    with pytest.raises(ConfigError, match="parallel=mine applies its steps without asking"):
        loop.run()


def test_replicas_are_compared_as_often_as_asked(make: Make) -> None:
    compared: list[int] = []
    loop, _ = make(drift_every=2, steps=5, compare_replicas=lambda: compared.append(loop.step))
    loop.run()
    assert compared == [2, 4]


def test_others_see_what_the_loop_is_at(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[tuple[str, int]] = []
    loop, _ = make(steps=2, boundary=lambda: entered.append(("boundary", loop.step)))
    monkeypatch.setattr(
        loop.progress.place, "enter", lambda phase, step: entered.append((phase, step))
    )
    loop.run()
    assert entered == [
        ("data", 0),
        ("forward-backward", 0),
        ("agreement", 1),
        ("boundary", 1),
        ("data", 1),
        ("forward-backward", 1),
        ("evaluation", 2),
        ("agreement", 2),
        ("boundary", 2),
    ]


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
