"""What a sweep that a signal has ended exits with."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, cast

import pytest

from tests.train.sweep.jobs import ended, job
from train import status
from train.sweep import present, slots
from train.sweep.cells import plan
from train.sweep.journal import Journal
from train.sweep.launcher import LocalLauncher
from train.sweep.options import SweepOptions
from train.sweep.present import Sweep


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (["completed", "completed"], 0),
        (["completed", "refused"], 2),
        (["completed", "preempted"], 75),
        (["completed"], 75),
    ],
)
def test_a_warning_that_came_too_late_for_all_jobs_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: list[status.State], code: int
) -> None:
    journal = Journal(tmp_path, [], [])
    cells = plan([job(number, seed=number) for number in range(2)], journal)
    sweep = Sweep(cast(Any, None), SweepOptions(), journal, cells)
    for number, end in enumerate(ends):
        ended(tmp_path / f"{number}_job", end, "" if end == "completed" else "why")
    sweep.notice.asked = signal.SIGTERM
    monkeypatch.setattr(slots, "run", lambda *_: slots.DONE)
    monkeypatch.setattr(present, "_present", sweep)
    with pytest.raises(SystemExit) as stop:
        LocalLauncher().launch([["seed=0"], ["seed=1"]], 0)
    assert stop.value.code == code
