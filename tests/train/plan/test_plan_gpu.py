"""The plan against the allocator of GPUs, and the parts of that benchmark that need none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.benchmarks.plan_gpu import CASES, SMALL, chosen, line, peak_on_gpu
from tests.gang import BF16
from tests.measured_memory import Case
from tests.planned_memory import planned

GIB = 2**30


def test_words_choose() -> None:
    (only,) = chosen(["zero2", "bf16", "gpt2_124m"])
    assert only == ("gpt2_124m", replace(SMALL, word="zero2", precision=BF16))
    assert len(list(chosen(["single"]))) == 4
    with pytest.raises(SystemExit, match="zero4: no such word"):
        list(chosen(["zero4"]))


def test_a_line_says_both_and_the_error() -> None:
    case = Case("single", BF16, 1, 1, "none", {})
    plan = planned(case, 1, gpu=True).peak.total
    said = line("nano", case, 1, 2 * plan)
    assert said.endswith("error -50.0%")
    assert f"measured {2 * plan / GIB:.2f} GiB" in said


def test_the_large_model_is_gpt2_xl() -> None:
    case = replace(CASES["gpt2_1.5b"], word="single", tokens=8)
    # 1,557,611,200 fp32 parameters (Radford et al., 2019).
    assert planned(case, 1, gpu=True).most["params"] == 4 * 1_557_611_200


@pytest.mark.gpu
def test_a_small_model_on_a_gpu() -> None:
    # Wide enough that the libraries' own workspaces, some ten MiB, are small beside it.
    sizes = {"layers": 8, "width": 1024, "heads": 8, "ffn": 4096, "vocab": 4096}
    case = Case("single", BF16, 4, 1, "none", sizes)
    assert planned(case, 1, gpu=True).peak.total == pytest.approx(peak_on_gpu(case, 1), rel=0.1)
