"""The command of a sweep, before its jobs start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from components.errors import ConfigError
from tests.train.slurm.fake import FakeSlurm
from tests.train.sweep.jobs import ended
from train import lock
from train.command_line import compose_jobs, parse
from train.run_words import read
from train.slurm.options import SlurmOptions, chosen, options_of
from train.slurm.submission import submit
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


def test_a_submitted_sweep_is_gone_on_with_here_or_there(tmp_path: Path) -> None:
    """Its words choose Slurm; another launcher has no use for the keys of that one."""
    words = [*SMALL, "hydra/launcher=slurm", "hydra.launcher.cpus=2"]
    Journal(tmp_path, ["--multirun", *words[1:]], []).write()
    there = command.expand(read([f"sweep.resume={tmp_path}", "hydra.launcher.wait=true"]))
    assert options_of(there.base) == SlurmOptions(cpus=2)
    here = command.expand(parse([f"sweep.resume={tmp_path}", "hydra/launcher=basic"]))
    assert not chosen(here.base)
    assert len(command.prepare(here, compose_jobs(here)).cells) == 2


def test_jobs_in_slurm_are_not_begun_here(tmp_path: Path, fake: FakeSlurm) -> None:
    line = parse([*SMALL, f"hydra.sweep.dir={tmp_path / 'sweep'}"])
    sweep = command.prepare(line, compose_jobs(line))
    sweep.journal.write()
    first = sweep.cells[0].folder
    submit(sweep.folder, [first], SlurmOptions(), nodes=1, array=True)
    again = parse([*SMALL, f"sweep.resume={sweep.folder}"])
    fake.answers("squeue", "77_0|PENDING|Priority\n")
    cells = command.prepare(again, compose_jobs(again)).cells
    assert [cell.fate for cell in cells] == ["queued", "run"]
    assert cells[0].words == "submitted already, as 77_0"
    fake.answers("squeue", "Unable to contact slurm controller\n", code=1)
    with pytest.raises(ConfigError, match="which of its jobs are in Slurm's queue is not known"):
        command.prepare(again, compose_jobs(again))
