"""What a plan says that a strategy copies and sends, held against what real steps do."""

from __future__ import annotations

import pytest

from components.precision import Precision
from tests.gang import BF16, FP16, FP32, run
from tests.measured_memory import Case
from tests.measured_overhead import counted
from tests.planned_memory import planned, planned_events

SIZES = {"layers": 3, "width": 128, "vocab": 64, "time": 16, "ffn": 192}


def case(word: str, precision: Precision, accumulation: int) -> Case:
    return Case(word, precision, 1, accumulation, "none", SIZES)


@pytest.mark.parametrize(
    ("word", "ranks"),
    [
        *((word, 2) for word in ("ddp", "fsdp", "zero1", "zero2", "zero3")),
        *((word, 4) for word in ("hsdp", "zero1", "zero2", "zero3")),
    ],
)
def test_copies_and_messages(word: str, ranks: int) -> None:
    cases = [case(word, precision, 1) for precision in (FP32, BF16)]
    if ranks == 2:
        cases += [case(word, FP16, 1), case(word, BF16, 2), case(word, FP32, 4)]
    for one, real in zip(cases, run(counted, ranks, cases)[0], strict=True):
        plan = planned(one, ranks).overhead
        computed = sum(size for kind, _, size, _ in planned_events(one) if kind == "op")
        copied = real.passed - one.accumulation * computed
        assert plan.copied == pytest.approx(copied, rel=0.03), one
        assert plan.messages == real.messages, one
        assert plan.scalars == real.scalars, one


def test_a_pipeline_tells_the_loss_and_the_norm() -> None:
    cases = [case("pipeline", precision, 2) for precision in (FP32, FP16)]
    for one, real in zip(cases, run(counted, 2, cases)[0], strict=True):
        assert planned(one, 2).overhead.scalars == real.scalars


def test_one_rank_sends_nothing() -> None:
    assert planned(case("single", FP32, 1), 1).overhead.scalars == 0
    assert not planned(case("single", FP32, 1), 1).overhead.messages
