"""What a sweep says at its end, and its exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.train.sweep.jobs import ended, job
from train.sweep import tell
from train.sweep.cells import plan
from train.sweep.journal import Journal
from train.sweep.options import SweepOptions
from train.sweep.present import Sweep


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    journal = Journal(tmp_path, [], [])
    cells = plan([job(number, seed=number) for number in range(4)], journal)
    return Sweep(cast(Any, None), SweepOptions(), journal, cells)


def _ends(folder: Path, *ends: str) -> None:
    for number, end in enumerate(ends):
        cause = "" if end == "completed" else f"because {number}\nand more"
        ended(folder / f"{number}_job", end, cause)  # type: ignore[arg-type]


def test_every_job_that_did_not_complete_is_named(
    sweep: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _ends(tmp_path, "completed", "failed", "refused")
    assert tell.end(sweep) == 1
    told = capsys.readouterr().err
    assert f"1 of 4 jobs completed: {tmp_path}\n" in told
    assert "  1_job: failed: because 1 and more\n" in told
    assert "  2_job: refused: because 2 and more\n" in told
    assert "not started: 1 job\n" in told
    assert f"sweep.resume={tmp_path}\n" in told


def test_refused_is_not_failed(sweep: Sweep, tmp_path: Path) -> None:
    _ends(tmp_path, "completed", "refused", "completed", "completed")
    assert tell.end(sweep) == 2


def test_all_completed(sweep: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _ends(tmp_path, *["completed"] * 4)
    assert tell.end(sweep) == 0
    assert "go on" not in capsys.readouterr().err


def test_names_say_what_is_a_jobs_own() -> None:
    jobs = [["steps=3", "parallel=ddp"], ["steps=3", "parallel=fsdp"]]
    assert tell.names_of(jobs) == ["parallel=ddp", "parallel=fsdp"]
    assert tell.names_of([["steps=3"]]) == ["steps=3"]
