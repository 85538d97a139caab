"""What was submitted together: a folder with the batch script, and which run is which element."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from train import status
from train.files import read_json, write_json, write_text
from train.slurm import queue, script
from train.slurm.options import SlurmOptions

PLACE = "slurm"
FILE = "jobs.json"


@dataclass(frozen=True)
class Waiting:
    """A run as it stood when it was submitted.

    Attributes:
        folder: its name in the folder of the sweep; `.` for a single run.
        attempts: that had been made.
        ended: when the last of them ended, as its status has it.
    """

    folder: str
    attempts: int = 0
    ended: str | None = None


@dataclass(frozen=True)
class Submission:
    """One call of sbatch.

    Attributes:
        place: its folder, `<sweep or run>/slurm/<number>`, absolute.
        runs: one for each element of the array.
        array: whether there is one.
        nodes: of each job.
        requeue: whether a job that was warned goes into the queue again.
        command: that submitted, for the runs' records.
        job: Slurm's id; None until it is submitted.
    """

    place: Path
    runs: list[Waiting]
    array: bool
    nodes: int
    requeue: bool
    command: list[str]
    job: str | None = None

    def folder(self, index: int) -> Path:
        """The run of an element."""
        return self.place.parent.parent / self.runs[index].folder

    def element(self, index: int) -> str:
        """Slurm's id of an element, as squeue and scancel have it."""
        return f"{self.job}_{index}" if self.array else f"{self.job}"

    def log(self, index: int) -> Path:
        """What the batch script and the controllers of an element say."""
        return self.place / f"{index}.log"

    def write(self) -> None:
        """Write it into its folder."""
        content: dict[str, Any] = {k: v for k, v in asdict(self).items() if k != "place"}
        write_json(self.place / FILE, content)


def submit(
    base: Path, folders: Sequence[Path], options: SlurmOptions, nodes: int, array: bool
) -> Submission:
    """Submit runs whose folders and configs are there.

    Args:
        base: the folder of the sweep, or of the single run, absolute.
        nodes: of each job.

    Raises:
        ConfigError: when Slurm does not take them.
    """
    place = _next_place(base)
    runs = [_waiting(base, folder) for folder in folders]
    made = Submission(place, runs, array, nodes, options.requeue, list(sys.orig_argv))
    made.write()
    write_text(place / script.NAME, script.script_text(options, place))
    jobs = len(runs) if array else None
    job = queue.sbatch(script.sbatch_words(options, place, base.name, nodes, jobs))
    made = replace(made, job=job)
    made.write()
    return made


def read(place: Path) -> Submission:
    """The submission in a folder."""
    content = read_json(place / FILE)
    runs = [Waiting(**run) for run in content.pop("runs")]
    return Submission(place, runs, **content)


def alive(base: Path) -> dict[Path, tuple[Submission, int]]:
    """The runs below a folder that are in Slurm's queue or running: the submission and the index.

    Raises:
        Unanswered: when Slurm does not say.
    """
    found = [read(path.parent) for path in base.glob(f"{PLACE}/*/{FILE}")]
    jobs = {one.job for one in found if one.job is not None}
    known = queue.standings(jobs) if jobs else {}
    return {
        one.folder(index): (one, index)
        for one in found
        for index in range(len(one.runs))
        if one.job is not None
        and (standing := known.get(one.element(index))) is not None
        and not standing.over
    }


def _next_place(base: Path) -> Path:
    there = [int(path.name) for path in (base / PLACE).glob("*") if path.name.isdecimal()]
    place = base / PLACE / str(max(there, default=0) + 1)
    place.mkdir(parents=True)
    return place


def _waiting(base: Path, folder: Path) -> Waiting:
    state = status.read(folder)
    name = str(folder.relative_to(base))
    return Waiting(name, state.get("attempts", 0), state.get("ended"))
