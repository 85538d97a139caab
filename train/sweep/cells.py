"""What is to become of each job of a sweep: run, gone on with, done already or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from train import lock, status
from train.command_line import Job
from train.config_hash import config_hash
from train.newest import newest
from train.run_names import short_name
from train.sweep.journal import Entry, Journal

Fate = Literal["run", "go on", "done", "refused", "queued"]


@dataclass(frozen=True)
class Cell:
    """One job, and where and how it runs.

    Attributes:
        job: its config as checked.
        number: its place in this command, from 0.
        folder: its own, inside the sweep's.
        fate: what is to become of it.
        words: the same, for a reader.
    """

    job: Job
    number: int
    folder: Path
    fate: Fate = "run"
    words: str = "to run"


def plan(jobs: list[Job], journal: Journal, queued: Mapping[Path, str] | None = None) -> list[Cell]:
    """The cells of jobs whose values are known before the first starts, noted in the journal.

    Args:
        queued: folders of runs that are a scheduler's already, with what it calls them.

    Raises:
        ConfigError: when another process leads the run of one at the moment.
    """
    seen: Counter[str] = Counter()
    cells = []
    for number, job in enumerate(jobs):
        digest = config_hash(job.config)
        cells.append(new_cell(job, number, journal, seen[digest], queued))
        seen[digest] += 1
    return cells


def new_cell(
    job: Job,
    number: int,
    journal: Journal,
    repeat: int = 0,
    queued: Mapping[Path, str] | None = None,
) -> Cell:
    """A job's cell, which is noted in the journal: its earlier folder if it has one.

    Args:
        repeat: how many jobs of the same command with the same config come before it.
        queued: as in `plan`.

    Raises:
        ConfigError: when another process leads the job's run at the moment.
    """
    digest = config_hash(job.config)
    if repeat:
        digest = f"{digest}-{repeat}"
    entry = journal.find(digest)
    if entry is None:
        entry = Entry(_free_name(job, journal), job.overrides, digest)
        twin = journal.twin(job.overrides)
        cell = Cell(job, number, journal.folder / entry.folder)
        if repeat:
            cell = replace(cell, words="to run once more: an earlier job here has the same config")
        elif twin is not None:
            cell = replace(cell, words=f"to run: its config is no longer that of {twin.folder}")
    else:
        cell = _earlier(Cell(job, number, journal.folder / entry.folder), queued or {})
    journal.add(entry)
    return cell


def _earlier(cell: Cell, queued: Mapping[Path, str]) -> Cell:
    """A cell that was planned before: what its folder, or a scheduler, says of it."""
    if cell.folder in queued:
        return replace(cell, fate="queued", words=f"submitted already, as {queued[cell.folder]}")
    state = status.read(cell.folder)
    if not state:
        return cell
    if state["status"] == "completed":
        return replace(cell, fate="done", words="completed already")
    refuse_taken(cell.folder)
    found = newest(cell.folder)
    was = "did not come to its end" if state["status"] == "running" else state["status"]
    whence = f"step {found.step}" if found.checkpoint else "its start, there is no checkpoint"
    return replace(cell, fate="go on", words=f"to go on from {whence} ({was} before)")


def refuse_taken(folder: Path, of: str = "run") -> None:
    """Refuse the folder of a run, or of a sweep, that another process leads at the moment.

    Raises:
        ConfigError: naming that process.
    """
    with suppress(OSError):  # what cannot be written is told of where it is to be
        if (folder / lock.FILE).exists():
            lock.take(folder.absolute(), of)
            lock.release(folder.absolute())


def _free_name(job: Job, journal: Journal) -> str:
    """The job's folder, with what it has of its own where another job has that name."""
    others = {entry.folder: entry.overrides for entry in journal.entries}
    name = job.folder.name
    if name in others:
        further = [text for text in job.overrides if text not in others[name]]
        name = f"{name}_{short_name(further)}" if further else name
    free, number = name, 2
    while free in others:
        free, number = f"{name}-{number}", number + 1
    return free
