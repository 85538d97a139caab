"""The sweep that this process runs: Hydra's sweeper and launcher have no other way to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from components.cluster.preemption import Notice
from train.command_line import CommandLine
from train.sweep.cells import Cell
from train.sweep.journal import Journal
from train.sweep.options import SweepOptions


@dataclass
class Sweep:
    """A sweep under way.

    Attributes:
        line: the command.
        options: how its jobs are run.
        journal: its jobs, in its folder.
        cells: those known so far; a search adds to them.
        search: whether a sweeper decides on the jobs while they run.
        notice: takes a warning that the sweep is to end.
        begun: the folders of jobs that have been started.
    """

    line: CommandLine
    options: SweepOptions
    journal: Journal
    cells: list[Cell]
    search: bool = False
    notice: Notice = field(default_factory=Notice)
    begun: set[Path] = field(default_factory=set)

    @property
    def folder(self) -> Path:
        """The sweep's own."""
        return self.journal.folder


_present: Sweep | None = None


def enter(sweep: Sweep) -> None:
    """Make it the sweep of this process."""
    global _present
    _present = sweep


def present() -> Sweep | None:
    """The sweep of this process; None outside one."""
    return _present
