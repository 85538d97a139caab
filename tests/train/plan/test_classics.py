"""The figures that everybody knows, from the command's own words."""

from __future__ import annotations

import pytest

from tests.train.plan.asked import bare, states

GB = 1e9


def test_seven_billion_in_fp32() -> None:
    plan = bare("7e9", "ddp", "fp32", 2)
    assert plan.per_rank["params"] == 28 * GB
    assert plan.per_rank["params"] + plan.per_rank["optimizer"] == pytest.approx(84 * GB)


def test_four_way_fsdp_divides_all_of_it() -> None:
    plan = bare("7e9", "fsdp", "fp32", 4)
    assert plan.per_rank["params"] + plan.per_rank["optimizer"] == pytest.approx(21 * GB)
    assert sum(states(plan).values()) == pytest.approx(28 * GB)  # with gradients


def test_175_billion_have_700_gb_of_parameters() -> None:
    assert bare("175e9", "ddp", "fp32", 2).per_rank["params"] == 700 * GB


@pytest.mark.parametrize(
    ("parallel", "figure"), [("ddp", 120), ("zero1", 31.4), ("zero2", 16.6), ("zero3", 1.9)]
)
def test_figure_1_of_the_zero_paper(parallel: str, figure: float) -> None:
    # 7.5 billion parameters, 64 ranks, K = 12; the paper rounds to three digits, or one decimal.
    paper = bare("7.5e9", parallel, "bf16", 64).paper["total"] / GB
    assert paper == pytest.approx(figure, abs=0.05)


@pytest.mark.parametrize(
    ("ranks", "ours"),
    [
        (1, (120, 120, 120)),
        (4, (52.5, 41.3, 30)),
        (16, (35.6, 21.6, 7.5)),
        (64, (31.4, 16.6, 1.88)),
        (256, (30.4, 15.4, 0.47)),
        (1024, (30.1, 15.1, 0.12)),
    ],
)
def test_table_1_of_the_zero_paper(ranks: int, ours: tuple[float, ...]) -> None:
    for parallel, figure in zip(("zero1", "zero2", "zero3"), ours, strict=True):
        paper = bare("7.5e9", parallel, "bf16", ranks).paper["total"] / GB
        assert paper == pytest.approx(figure, rel=5e-3, abs=5e-3)


@pytest.mark.parametrize(
    ("parallel", "precision", "sum_gb"),
    [
        # Bytes a parameter on 64 ranks: docs/parallel.md, "What each holds".
        ("ddp", "bf16", 16 * 7.5),
        ("fsdp", "bf16", 16 / 64 * 7.5),
        ("zero1", "fp16", (2 + 16 / 64) * 7.5),
        ("zero2", "bf16", (2 + 16 / 64) * 7.5),
        ("zero2", "fp32", (4 + 16 / 64) * 7.5),
        ("zero3", "bf16", 18 / 64 * 7.5),
    ],
)
def test_what_this_project_holds_of_the_same(parallel: str, precision: str, sum_gb: float) -> None:
    plan = bare("7.5e9", parallel, precision, 64)
    assert sum(states(plan).values()) / GB == pytest.approx(sum_gb, rel=1e-6)


@pytest.mark.parametrize(
    ("parallel", "by_parameter"),
    [("ddp", 16), ("zero1", 12), ("zero2", 12), ("zero3", 10), ("fsdp", 8)],
)
def test_two_ranks_in_fp32(parallel: str, by_parameter: int) -> None:
    # DeepSpeed keeps a second fp32 copy of its part of the weights: 2 of zero2's and zero3's 12
    # and 10, which papers have at 10 and 8.
    plan = bare("1e6", parallel, "fp32", 2)
    assert sum(states(plan).values()) == pytest.approx(by_parameter * 1e6, rel=1e-5)


def test_a_master_is_there_where_parameters_are_half() -> None:
    assert bare("1e6", "ddp", "bf16", 2).per_rank["master"] == 0
    assert bare("1e6", "zero2", "bf16", 2).per_rank["master"] == 2e6
