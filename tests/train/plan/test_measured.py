"""A handful of cells against what their ranks really hold; the rest: tests/benchmarks/plan.py."""

from __future__ import annotations

import pytest

from tests.gang import BF16, FP32, run
from tests.measured_memory import Case, largest, measured, memory
from tests.planned_memory import compared, planned

MEDIUM = {"layers": 6, "width": 256, "ffn": 1024, "heads": 4}
TIED = {"vocab": 2048, "tied_embeddings": True}
"""One weight, larger than a bucket of ZeRO's, whose gradient comes from both ends."""


@pytest.mark.parametrize(
    ("case", "ranks"),
    [
        (Case("single", FP32, 2, 2, "none", {}), 1),
        (Case("ddp", BF16, 2, 1, "full", {}), 2),
        # A CPU takes long for products in a half type.
        (Case("fsdp", BF16, 1, 1, "none", MEDIUM, products=False), 2),
        (Case("zero2", FP32, 1, 1, "none", TIED), 2),
        (Case("zero2", FP32, 1, 1, "none", TIED), 4),  # of which two ranks have a part
        (Case("zero3", BF16, 1, 1, "none", MEDIUM, products=False), 2),
        (Case("zero3", FP32, 1, 1, "full", TIED), 2),
        (Case("pipeline", BF16, 1, 4, "full", TIED), 2),
    ],
    ids=lambda value: getattr(value, "word", None),
)
def test_the_plan_is_what_is_held(case: Case, ranks: int) -> None:
    errors = compared(case, ranks, measured(case, ranks))
    total = errors.pop("total")
    assert abs(total) < 0.1
    assert max(map(abs, errors.values())) < 0.05


@pytest.mark.parametrize(("form", "sizes"), [("none", {}), ("full", {"vocab": 64})])
def test_a_pipeline_of_four_stages(form: str, sizes: dict[str, int]) -> None:
    # The planned stage is the one that needs the most, and so is the measured one: the last with
    # its logits, or the first one, when the second micro-batch goes back beside all gradients.
    case = Case("pipeline", FP32, 1, 4, form, sizes)
    by_rank = run(memory, 4, case)
    most = largest(by_rank)
    assert planned(case, 4).stage == by_rank.index(most)
    assert max(map(abs, compared(case, 4, most).values())) < 0.05
