"""results.csv: a line for each run, numbers in full."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.train.compare.synthetic import curve, write_run
from train.compare.comparison import COLUMNS, compare
from train.compare.csv_file import write_csv
from train.compare.results import read_run

FIXED = [
    *("run", "status", "row", "parallel", "precision", "cluster", "world_size", "seed"),
    *("attempts", *COLUMNS, "note", "cause", "folder"),
]


def _read(folder: Path, kinds: Sequence[dict[str, Any]], file: Path) -> list[dict[str, str]]:
    runs = [write_run(folder / f"{place}_run", **kind) for place, kind in enumerate(kinds)]
    write_csv(compare([read_run(run) for run in runs]), file)
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_each_run_has_a_line_whatever_its_row(tmp_path: Path) -> None:
    third = 1 / 3
    kinds = [{"seed": seed, "records": curve([4.0, third], {2: third})} for seed in (0, 1)]
    lines = _read(tmp_path, kinds, tmp_path / "results.csv")
    assert list(lines[0]) == FIXED
    assert [line["run"] for line in lines] == ["0_run", "1_run"]
    assert [line["seed"] for line in lines] == ["0", "1"]
    assert {line["row"] for line in lines} == {"ddp fp32"}
    assert float(lines[0]["val_loss_last"]) == third
    assert lines[0]["val_loss_last"] == "0.3333333333333333"
    assert lines[0]["peak_memory_bytes"] == "2048"
    assert lines[0]["folder"] == "0_run"


def test_keys_that_differ_have_columns_beside_what_was_measured(tmp_path: Path) -> None:
    kinds = [
        {"config": {"steps": 3, "optimizer.lr": 1e-4}},
        {"config": {"steps": 50, "optimizer.lr": 0.1}, "parallel": "fsdp"},
    ]
    lines = _read(tmp_path, kinds, tmp_path / "results.csv")
    assert list(lines[0]) == [*FIXED, "config.optimizer.lr", "config.steps"]
    assert [line["config.optimizer.lr"] for line in lines] == ["0.0001", "0.1"]
    assert [line["config.steps"] for line in lines] == ["3", "50"]
    assert [line["steps"] for line in lines] == ["3", "3"]
    assert lines[1]["note"] == "steps 50, not 3"


def test_a_failure_has_its_whole_cause_and_what_is_unknown_is_empty(tmp_path: Path) -> None:
    cause = 'a "quoted", long\ncause'
    kinds = [{"parallel": "zero2", "status": "refused", "error": {"cause": cause}}]
    (line,) = _read(tmp_path, kinds, tmp_path / "results.csv")
    assert (line["status"], line["cause"]) == ("refused", cause)
    for name in ("val_loss_last", "loss_difference", "samples_per_s", "world_size"):
        assert line[name] == ""


def test_elsewhere_the_runs_folders_stand_in_full(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (line,) = _read(tmp_path / "runs", [{}], tmp_path / "out" / "results.csv")
    assert line["folder"] == str(tmp_path / "runs" / "0_run")
