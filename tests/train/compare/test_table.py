"""The terminal's table: everything is there at any width, and nothing is cut."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.train.compare.synthetic import curve, write_run
from train.compare.comparison import Comparison, Value, compare
from train.compare.numbers import Column, difference, digits, factor, loss, whole
from train.compare.results import read_run
from train.compare.table import print_table

Kind = dict[str, Any]

SINGLE: Kind = {
    "parallel": "single",
    "world_size": 1,
    "records": curve([4.0, 3.0, 2.0], {2: 2.25, 3: 2.5}),
}
FAST: Kind = {
    "parallel": "fsdp",
    "precision": "bf16",
    "records": curve([4.0, 3.0, 2.0], {3: 2.512}),
    "throughput": {"step_time_s": 0.125, "samples_per_s": 256.0, "tokens_per_s": None},
    "peak_memory_bytes": [3_000_000, 5_000_000],
}


def _compare(folder: Path, kinds: Sequence[Kind]) -> Comparison:
    runs = [write_run(folder / f"{place}_run", **kind) for place, kind in enumerate(kinds)]
    return compare([read_run(run) for run in runs], title="a title")


def _text(comparison: Comparison, width: int | None = None) -> str:
    file = io.StringIO()
    print_table(comparison, file, width)
    return file.getvalue()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_row_says_loss_speed_and_memory(tmp_path: Path) -> None:
    lines = _text(_compare(tmp_path, [SINGLE, FAST])).splitlines()
    assert lines[1:4] == ["a title", "2 of 2 runs completed; reference: single fp32", ""]
    single, fast = (re.split(r"\s{2,}", line.strip()) for line in lines[-2:])
    assert single == [
        "single fp32",
        "1",
        "2.5000",
        "2.2500",
        "reference",
        "500",
        "64.0",
        "1.00x",
        "0.00205",
    ]
    # 2.512 - 2.5; 256 / 64; 5 MB on the largest rank.
    assert fast == ["fsdp bf16", "2", "2.5120", "2.5120", "+1.2e-02", "125", "256", "4.00x", "5.00"]


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    text = _text(_compare(tmp_path, [SINGLE | {"records": curve([4.0, 3.0], {2: 3.0})}]))
    for heading in ("status", "steps", "best", "reference", "speed-up", "skipped", "train"):
        assert heading not in text
    assert "1 of 1 run completed\n" in text


def test_skipped_steps_and_a_training_loss_are_shown_where_they_tell(tmp_path: Path) -> None:
    kinds = [
        {"records": curve([4.0, 3.5], {})},
        {**FAST, "records": curve([4.0, 3.0], {}), "summary": {"skipped_steps": 7}},
    ]
    text = _text(_compare(tmp_path, kinds))
    assert "skipped" in text
    assert re.search(r"train\s.*loss", text, re.DOTALL)
    assert "val" not in text
    assert re.search(r"fsdp bf16 +3\.0000 .* 7$", text, re.MULTILINE)


def test_several_seeds_are_shown_with_their_spread(tmp_path: Path) -> None:
    kinds = [SINGLE | {"seed": s, "records": curve([2.0], {1: 2.5 + s / 10})} for s in (0, 1, 2)]
    text = _text(_compare(tmp_path, kinds))
    assert "mean ± sample standard deviation over runs" in text
    assert "single fp32 (3 runs)  2.6000 ± 0.10" in text


CAUSE = "rank 1 ran out of memory: [red]needed[/red] 3 GiB\n" + "and there was no more. " * 8


def _mixed(folder: Path) -> Comparison:
    error = {"cause": CAUSE, "rank": 1, "traceback_file": "logs/rank-1.traceback.txt"}
    long = {"config": {"optimizer.lr": 1e-4}, "overrides": ["optimizer.lr=1e-4"]}
    kinds = [
        SINGLE,
        {**FAST, **long},
        {"parallel": "zero3", "status": "failed", "error": error},
        {"parallel": "zero3", "precision": "fp16", "status": "refused", "error": {"cause": "no"}},
        {"status": "running", "config": {"steps": 50}, "overrides": ["steps=50"]},
    ]
    found = _compare(folder, kinds)
    (folder / "2_run" / "logs" / "rank-1.traceback.txt").touch()
    return found


@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_fits_the_terminal_and_hides_nothing(tmp_path: Path, width: int) -> None:
    comparison = _mixed(tmp_path)
    text = _text(comparison, width)
    for line in text.splitlines():
        path_alone = str(tmp_path) in line and " " not in line.strip()
        assert len(line) <= width or path_alone, line
    assert "…" not in text
    whole_text = " ".join(text.split())
    for row in comparison.rows:
        assert row.label in whole_text
    for word in ("2.5120", "+1.2e-02", "4.00x", "5.00", "2.2500"):
        assert word in text
    for word in ("completed", "failed", "refused", "crashed", "3/50", "fsdp bf16 lr=0.0001"):
        assert word in whole_text
    assert " ".join(CAUSE.split()) in whole_text
    assert f"  {tmp_path}/2_run/logs/rank-1.traceback.txt\n" in text


def test_the_narrower_the_terminal_the_more_tables(tmp_path: Path) -> None:
    comparison = _mixed(tmp_path)
    rules = [_text(comparison, width).count("─\n") for width in (80, 120, 200)]
    assert rules == [2, 2, 1]
    assert _text(comparison, 20) == _text(comparison, 60)  # below that it does not try


def test_failures_are_told_with_cause_and_place(tmp_path: Path) -> None:
    text = _text(_mixed(tmp_path))
    label = "zero3 fp32 lr=0.001 steps=3"
    place = tmp_path / "2_run" / "logs" / "rank-1.traceback.txt"
    lines = "\n".join(f"  {line.strip()}" for line in CAUSE.splitlines())
    assert f"\n{label}: failed on rank 1\n{lines}\n  {place}\n" in text
    assert f"steps=3: refused\n  no\n  {tmp_path / '3_run'}\n" in text
    assert "steps=50: crashed\n  the process that led the run is gone" in text


def test_of_several_seeds_the_one_that_failed_is_named(tmp_path: Path) -> None:
    failed = {**SINGLE, "seed": 4, "status": "failed", "error": {"cause": "boom", "rank": None}}
    text = _text(_compare(tmp_path, [SINGLE, failed]))
    assert "1 of 2 completed" in text
    assert "single fp32 seed=4: failed\n  boom\n" in text


def test_an_unfair_comparison_carries_a_mark_and_its_reason(tmp_path: Path) -> None:
    other = {**FAST, "config": {"global_batch_size": 64}, "overrides": ["global_batch_size=64"]}
    text = _text(_compare(tmp_path, [SINGLE, other]))
    assert "+1.2e-02 *" in text
    label = "fsdp bf16 global_batch_size=64"
    assert f"* {label}: its loss is no fair comparison: global_batch_size 64, not 32\n" in text


def test_colour_is_for_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    comparison = _mixed(tmp_path)
    terminal = _Terminal()
    print_table(comparison, terminal, 200)
    assert "\x1b[31mfailed" in terminal.getvalue()
    assert "\x1b" not in _text(comparison)


def test_losses_that_are_not_finite_are_shown_as_such(tmp_path: Path) -> None:
    kinds = [SINGLE, FAST | {"records": curve([4.0, None], {2: None})}]
    text = _text(_compare(tmp_path, kinds))
    assert re.search(r"fsdp bf16 +2 +nan +nan +125 ", text)


@pytest.mark.parametrize(
    ("show", "number", "shown"),
    [
        (digits, 0.167844, "0.168"),
        (digits, 1234.5, "1,234"),
        (digits, 2e-7, "2.0e-07"),
        (digits, 0.0, "0"),
        (digits, float("nan"), "nan"),
        (digits, float("-inf"), "-inf"),
        (loss, 3.347723, "3.3477"),
        (loss, 12.5, "12.500"),
        (difference, -0.000828, "-8.3e-04"),
        (difference, 0.0, "0"),
        (difference, float("nan"), "nan"),
        (factor, 1.254, "1.25x"),
        (factor, 0.0781, "0.078x"),
        (whole, 12.0, "12"),
        (whole, 1.5, "1.50"),
        (whole, float("inf"), "inf"),
    ],
)
def test_numbers_have_the_digits_that_matter(show: Any, number: float, shown: str) -> None:
    assert show(number) == shown


def test_a_spread_is_in_the_unit_of_its_mean() -> None:
    assert Column("ms", digits, 1e-3).cell(Value(0.25, 0.0125)) == "250 ± 12"
    assert Column("ms", digits, 1e-3).cell(Value(None)) == ""
