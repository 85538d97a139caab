"""What a run measured, with and without a summary."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.train.compare.synthetic import BEGAN, curve, train_record, val_record, write_run
from train.compare.measures import Measures, measure
from train.compare.results import read_run


def _measure(folder: Path, **kind: Any) -> Measures:
    return measure(read_run(write_run(folder / "run", **kind)))


def test_a_completed_run_s_numbers(tmp_path: Path) -> None:
    records = curve([4.0, 3.0, 2.0, 2.5], {2: 2.25, 3: 1.5, 4: 1.75})
    rates = {"step_time_s": 0.25, "samples_per_s": 128.0, "tokens_per_s": None}
    found = _measure(
        tmp_path,
        records=records,
        throughput=rates,
        peak_memory_bytes=[300, 500, 400],
        summary={"skipped_steps": 2, "memory": {"error": -0.02}},
    )
    assert found.values == {
        "val_loss_last": 1.75,
        "val_loss_best": 1.5,
        "val_loss_best_step": 3,
        "train_loss_last": 2.5,
        "step_time_s": 0.25,
        "samples_per_s": 128.0,
        "tokens_per_s": None,
        "peak_memory_bytes": 500,
        "forecast_error": -0.02,
        "data_wait_share": 0.25,
        "skipped_steps": 2,
        "wall_s": 10.0,
        "steps": 4,
    }
    assert found.train == {1: 4.0, 2: 3.0, 3: 2.0, 4: 2.5}
    assert found.val == {2: 2.25, 3: 1.5, 4: 1.75}


def test_rates_of_a_run_without_a_summary_weigh_records_by_their_steps(tmp_path: Path) -> None:
    records = [
        train_record(1, 4.0, step_time_s=9.0),  # warm-up
        train_record(3, 3.0, step_time_s=0.5, samples_per_s=64.0, data_wait_share=0.1),
        train_record(4, 2.0, step_time_s=0.8, samples_per_s=40.0, data_wait_share=0.5),
    ]
    values = _measure(tmp_path, records=records, status="failed").values
    # 2 steps of 0.5 s and 1 of 0.8 s are 1.8 s; 64 + 32 samples; 0.1 + 0.4 s of waiting.
    assert values["step_time_s"] == pytest.approx(0.6)
    assert values["samples_per_s"] == pytest.approx(96 / 1.8)
    assert values["data_wait_share"] == pytest.approx(0.5 / 1.8)
    assert values["tokens_per_s"] == pytest.approx(8192.0)
    assert values["peak_memory_bytes"] is None
    assert values["steps"] == 4


def test_a_run_with_one_record_has_no_rates(tmp_path: Path) -> None:
    values = _measure(tmp_path, records=[train_record(1, 4.0)], status="running").values
    assert values["step_time_s"] is None
    assert values["data_wait_share"] is None
    assert values["val_loss_last"] is None
    assert values["wall_s"] == 1.0  # to its only record
    assert values["steps"] == 1


def test_a_loss_that_was_not_finite_is_nan_and_never_the_best(tmp_path: Path) -> None:
    records = [
        *curve([4.0, 3.0], {1: 3.5}),
        train_record(3, None),
        val_record(3, None),
    ]
    found = _measure(tmp_path, records=records)
    assert math.isnan(found.values["val_loss_last"] or 0)
    assert math.isnan(found.values["train_loss_last"] or 0)
    assert (found.values["val_loss_best"], found.values["val_loss_best_step"]) == (3.5, 1)


def test_steps_that_were_all_skipped_have_no_loss(tmp_path: Path) -> None:
    records = [
        train_record(1, None, skipped_steps=1),
        train_record(2, 3.0, skipped_steps=1),
        train_record(3, None, skipped_steps=2),
    ]
    found = _measure(tmp_path, records=records, status="failed")
    assert found.train == {2: 3.0}
    assert found.values["skipped_steps"] == 2


def test_a_summary_alone_gives_its_last_losses(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "metrics.jsonl").unlink()
    values = measure(read_run(folder)).values
    assert (values["val_loss_last"], values["train_loss_last"], values["steps"]) == (2.5, 2.0, 3)


def test_a_refused_run_has_no_numbers(tmp_path: Path) -> None:
    values = _measure(tmp_path, status="refused").values
    known = {name: value for name, value in values.items() if value is not None}
    assert known == {"wall_s": 10.0, "steps": 0}


def test_the_times_of_the_records_count_from_the_start(tmp_path: Path) -> None:
    records = [train_record(1, 4.0, time=BEGAN + 1.0), train_record(2, 3.0, time=BEGAN + 61.5)]
    assert _measure(tmp_path, records=records, status="running").values["wall_s"] == 61.5
