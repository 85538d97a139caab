"""Which steps are let through, by values worked out by hand, and under every strategy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from components.cluster.ranks import Ranks, all_agree
from components.data.batch import Batch
from components.model.mlp import MLP
from components.parallel.gate import Gate, middle
from tests.gang import BF16, FP16, FP32, ON_TWO, STRATEGIES, alone, prepared, run


def judged(gate: Gate, values: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether each (loss, norm) in turn is let through."""
    return [gate.admits(torch.tensor(loss), torch.tensor(norm)) for loss, norm in values]


def test_the_middle_of_values() -> None:
    # Median 3; distances from it 2, 1, 0, 1, 97, of which the median is 1.
    assert middle([1.0, 2.0, 3.0, 4.0, 100.0]) == (3.0, pytest.approx(1.4826))


def test_equal_values_scatter_by_a_thousandth() -> None:
    assert middle([2.0] * 5) == (2.0, pytest.approx(0.002))


def test_what_is_not_finite_is_kept_out_by_default() -> None:
    gate = Gate()
    assert judged(gate, [(1.0, 1.0), (math.nan, 1.0), (1.0, math.inf), (1.0, 1.0)]) == [
        True,
        False,
        False,
        True,
    ]
    assert gate.verdict is None


def test_a_spike_lies_above_the_median_by_so_many_times_the_scatter() -> None:
    gate = Gate(on_spike="skip", factor=2.0, window=5)
    seen = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0)]
    # Median 3, distances 2, 1, 0, 1, 2: scatter 1.4826, so the limit is 5.9652.
    assert judged(gate, [*seen, (5.96, 1.0)]) == [True] * 6
    assert judged(Gate(on_spike="skip", factor=2.0, window=5), [*seen, (5.97, 1.0)])[-1] is False
    last = Gate(on_spike="skip", factor=2.0, window=5)
    assert judged(last, [*seen, (1.0, 6.0)])[-1] is False
    assert last.verdict is not None
    assert last.verdict.cause.startswith("the gradient norm is 6, above 5.9652 = median 3 + ")


def test_nothing_is_judged_before_the_window_is_full() -> None:
    assert judged(Gate(on_spike="skip", window=5), [(1.0, 1.0)] * 4 + [(99.0, 99.0)])[-1]


def test_a_skipped_step_does_not_move_the_median_and_a_warned_one_does() -> None:
    calm, spike = [(1.0, 1.0)] * 5, (50.0, 50.0)
    skipping = Gate(on_spike="skip", window=5)
    assert judged(skipping, [*calm, spike, spike, spike]) == [True] * 5 + [False] * 3
    warning = Gate(on_spike="warn", window=5)
    assert judged(warning, [*calm, spike]) == [True] * 6
    assert warning.verdict is not None
    judged(warning, [spike, spike])  # three of five: the median
    assert judged(warning, [spike])
    assert warning.verdict is None


def test_all_ranks_do_as_one_of_them_finds() -> None:
    gate = Gate(on_spike="skip", window=5, agree=lambda vote: False)
    assert judged(gate, [(1.0, 1.0)]) == [False]
    assert gate.verdict is not None


def test_a_gate_goes_on_as_it_was() -> None:
    values = [(1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (2.0, 3.0), (1.0, 2.0)]
    straight, first, second = (Gate(on_spike="skip", window=5) for _ in range(3))
    judged(straight, values)
    judged(first, values[:3])
    second.restore(first.state())
    judged(second, values[3:])
    assert second.state() == straight.state()
    assert judged(second, [(40.0, 2.0)]) == judged(straight, [(40.0, 2.0)]) == [False]


# Under every strategy

CALM, SPIKE, NAN = 1.0, 50.0, math.nan
PRECISIONS = {"fp32": FP32, "bf16": BF16, "fp16": FP16}


@dataclass
class Course:
    """Some steps of one strategy.

    Attributes:
        applied, norms, scales: of each step.
        verdicts: the kinds of what the gate said.
        weights: after the last; empty but on rank 0.
    """

    applied: list[bool]
    norms: list[float]
    scales: list[float]
    verdicts: list[str | None]
    weights: dict[str, Tensor]


def _batches(step: int, size: float, ranks: Ranks, dp_size: int) -> list[Batch]:
    """Two micro-batches of four samples for each data-parallel rank."""
    draws = torch.Generator().manual_seed(step)
    inputs = torch.randn(8 * dp_size, 6, generator=draws)
    targets = torch.randint(3, (8 * dp_size,), generator=draws)
    own = ranks.rank % dp_size
    some = (slice(8 * own + 4 * m, 8 * own + 4 * m + 4) for m in range(2))
    return [Batch(inputs[part] * size, targets[part], 4) for part in some]


def course(ranks: Ranks, word: str, precision: str, steps: Sequence[tuple[int, float]]) -> Course:
    """Train on batches (number, size of the inputs)."""
    torch.manual_seed(0)
    gate = Gate("skip", "skip", window=5, agree=lambda vote: all_agree(ranks, vote))
    strategy = STRATEGIES[word]()
    strategy.gate = gate
    model = MLP(in_features=6, classes=3, width=8, layers=3)
    prepared(strategy, model, ranks, precision=PRECISIONS[precision])
    told = Course([], [], [], [], {})
    for number, size in steps:
        gate.begin()
        result = strategy.step(_batches(number, size, ranks, strategy.dp_size))
        told.applied.append(result.applied)
        told.norms.append(float(result.grad_norm))
        told.scales.append(result.loss_scale)
        told.verdicts.append(gate.verdict.kind if gate.verdict else None)
    told.weights = strategy.full_weights()
    strategy.close()
    return told


START = [(number, CALM) for number in range(6)]
COURSES = {
    "calm": [*START, (8, CALM)],
    "spike": [*START, (6, SPIKE), (8, CALM)],
    "nan": [*START, (7, NAN), (8, CALM)],
}
CELLS = [(word, precision) for word in ON_TWO for precision in PRECISIONS]


def all_courses(ranks: Ranks, cells: list[tuple[str, str]]) -> dict[Any, Course]:
    return {
        (*cell, name): course(ranks, *cell, steps)
        for cell in cells
        for name, steps in COURSES.items()
    }


@pytest.fixture(scope="module")
def courses() -> dict[Any, Course]:
    single = all_courses(alone(), [("single", precision) for precision in PRECISIONS])
    return {**single, **run(all_courses, 2, CELLS)[0]}


@pytest.mark.parametrize(
    ("word", "precision"), [*CELLS, *(("single", precision) for precision in PRECISIONS)]
)
def test_a_step_that_is_kept_out_leaves_everything_as_it_was(
    courses: dict[Any, Course], word: str, precision: str
) -> None:
    calm = courses[word, precision, "calm"]
    assert calm.applied == [True] * 7
    for name in ("spike", "nan"):
        other = courses[word, precision, name]
        assert other.applied == [True] * 6 + [False, True], name
        for key, weight in calm.weights.items():
            assert torch.equal(other.weights[key], weight), (name, key)
    spike, nan = courses[word, precision, "spike"], courses[word, precision, "nan"]
    assert spike.verdicts[6] == "spike"
    # A step that was kept out for a spike is no overflow: its norm is told, the scale stays.
    assert math.isfinite(spike.norms[6])
    assert spike.norms[6] > 5 * max(spike.norms[:6])
    assert len({*spike.scales}) == 1
    # In fp16 it is the loss scale that finds what is not finite, and moves for it.
    assert nan.verdicts[6] == (None if precision == "fp16" else "nonfinite")
    assert nan.scales[6] == (512.0 if precision == "fp16" else 1.0)
