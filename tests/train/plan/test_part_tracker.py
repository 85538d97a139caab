"""What counts storages, and the words and lines of the benchmark that uses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.plan_cells import all_cells, chosen
from tests.benchmarks.plan_results import append, read
from tests.benchmarks.plan_table import table
from tests.gang import BF16
from tests.measured_memory import Case, measured


def test_products_that_are_left_out_take_the_same_memory() -> None:
    case = Case("single", BF16, 2, 1, "full", {}, tokens=16)
    assert measured(replace(case, products=False), 1) == measured(case, 1)


def test_words_choose_cells() -> None:
    cells = chosen(["fsdp", "zero3", "bf16", "gpt_30m", "x8", "full"])
    words = {(cell.strategy, cell.ranks) for cell in cells}
    assert words == {("fsdp", 2), ("fsdp", 4), ("zero3", 2), ("zero3", 4)}
    assert len(chosen(["ranks=1"])) == sum(cell.strategy == "single" for cell in all_cells())
    with pytest.raises(SystemExit, match="fsdp2: no such word"):
        chosen(["fsdp2"])


def test_lines_go_on_behind_one_cut_short(tmp_path: Path) -> None:
    first, second, *_ = all_cells()
    file = tmp_path / "measured.jsonl"
    append(file, first, [{"most": {}, "peak": 5}])
    with file.open("a") as lines:
        lines.write('{"cell": [\n')
    append(file, second, [{"most": {}, "peak": 6}])
    found = read(file)
    assert [found[cell.words][0]["peak"] for cell in (first, second)] == [5, 6]


def test_the_table_has_the_worst_cell_and_how_many() -> None:
    one, two = chosen(["ddp", "bf16", "gpt_nano", "ranks=2", "x1", "none", "full"])
    errors = {one: {"grads": 0.01, "total": -0.02}, two: {"grads": -0.03, "total": 0.01}}
    assert table(errors).splitlines()[-1] == "| `ddp` | bf16 | 2 | -2.0%, grads -3.0% (2) |"
