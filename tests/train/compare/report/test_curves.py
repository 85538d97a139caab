from __future__ import annotations

import math
from pathlib import Path

from tests.train.compare.synthetic import curve, train_record, val_record, write_run
from train.compare.report.curves import Point, joined, losses
from train.compare.results import read_run


def test_a_loss_knows_where_it_was_taken(tmp_path: Path) -> None:
    # 32 samples of 128 tokens a step; step n is recorded n seconds after the start.
    write_run(tmp_path / "run", seed=3, records=curve([4.0, 3.0], {2: 2.5}))
    found = losses(read_run(tmp_path / "run"))
    assert found.seed == 3
    assert found.train == [Point(1, 4.0, 32, 4096.0, 1.0), Point(2, 3.0, 64, 8192.0, 2.0)]
    assert found.validation == [Point(2, 2.5, 64, 8192.0, 2.5)]


def test_an_evaluation_between_two_records_has_consumed_what_its_step_has(tmp_path: Path) -> None:
    records = [train_record(10, 4.0), val_record(15, 3.5), train_record(20, 3.0)]
    write_run(tmp_path / "run", records=records)
    (point,) = losses(read_run(tmp_path / "run")).validation
    assert (point.samples, point.tokens) == (480, 61440)


def test_samples_that_are_no_sequences_have_no_tokens(tmp_path: Path) -> None:
    write_run(tmp_path / "run", records=[train_record(1, 4.0, tokens_per_s=None)])
    (point,) = losses(read_run(tmp_path / "run")).train
    assert (point.samples, point.tokens) == (32, None)


def test_a_run_without_records(tmp_path: Path) -> None:
    write_run(tmp_path / "run", status="refused", error={"cause": "no"})
    found = losses(read_run(tmp_path / "run"))
    assert (found.train, found.validation) == ([], [])
    assert joined([found.train]).points == []


def point(step: int, loss: float, seconds: float = 0.0) -> Point:
    return Point(step, loss, 32.0 * step, None, seconds)


def test_seeds_are_averaged_step_by_step() -> None:
    both = joined([[point(1, 4.0, 1.0), point(2, 3.0, 2.0)], [point(1, 5.0, 3.0), point(3, 2.0)]])
    assert both.points == [point(1, 4.5, 2.0), point(2, 3.0, 2.0), point(3, 2.0)]
    assert (both.low, both.high) == ([4.0, 3.0, 2.0], [5.0, 3.0, 2.0])


def test_one_seed_that_diverged_leaves_no_mean() -> None:
    both = joined([[point(1, 4.0)], [point(1, math.nan)]])
    numbers = [both.points[0].loss, both.low[0], both.high[0]]
    assert all(map(math.isnan, numbers))
