"""The command of a sweep, before its jobs start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from components.errors import ConfigError
from tests.train.sweep.jobs import ended
from train import lock
from train.command_line import compose_jobs, parse
from train.sweep import command
from train.sweep.journal import Journal
from train.sweep.options import SweepOptions
from train.sweep.present import Sweep


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    journal = Journal(tmp_path / "file" / "sweep", [], [])
    with pytest.raises(ConfigError, match=r"file/sweep.* cannot be written \(Not a directory\)"):
        command.run(Sweep(cast(Any, None), SweepOptions(), journal, []))


SMALL = ("-m", "model=mlp", "data=synthetic", "data.kind=features", "logger=none", "seed=1,2")


def _prepared(*words: str) -> Sweep:
    line = parse([*SMALL, *words])
    return command.prepare(line, compose_jobs(line))


@pytest.mark.parametrize("place", ["", "0_seed-1"])
def test_runs_of_others_are_never_gone_on_with(tmp_path: Path, place: str) -> None:
    ended(tmp_path / place, "completed")
    with pytest.raises(ConfigError, match=r"hydra\.sweep\.dir=.* holds a run that is none of this"):
        _prepared(f"hydra.sweep.dir={tmp_path}")


def test_a_sweep_that_another_command_runs_is_named(tmp_path: Path) -> None:
    _prepared(f"hydra.sweep.dir={tmp_path}").journal.write()
    lock.take(tmp_path, "sweep")
    fd = lock._held.pop(tmp_path.resolve())  # as though another process had it
    try:
        with pytest.raises(ConfigError, match=r"^sweep\.resume=.*: the sweep is still going \(pro"):
            _prepared(f"sweep.resume={tmp_path}")
    finally:
        os.close(fd)
