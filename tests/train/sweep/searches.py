"""Searches whose jobs are a formula: all of the command but the training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from tests.train.sweep.jobs import ended
from train import status
from train.command_line import compose_jobs, parse
from train.files import write_json
from train.sweep import command, slots
from train.sweep.cells import Cell
from train.sweep.launcher import LocalLauncher
from train.sweep.present import Sweep, enter
from train.sweep.search import Search

SMALL = ("model=mlp", "data=synthetic", "data.kind=features", "logger=none")

Formula = Callable[[DictConfig], float | None]


class Killed(BaseException):
    """The command's end in the middle of a job."""


@dataclass
class Searches:
    """Runs the commands of one search, one after the other.

    Attributes:
        folder: the sweep's.
        small: overrides of each command that begins a search.
        ran: the configs of all jobs that ran, in order.
        together: how many ran at once, by batch.
    """

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    small: tuple[str, ...] = SMALL
    ran: list[DictConfig] = field(default_factory=list)
    together: list[int] = field(default_factory=list)

    def begin(self, formula: Formula, *words: str) -> Sweep:
        """`python -m train -m hydra/sweeper=search` with these words, to its end."""
        base = ("-m", "hydra/sweeper=search", *self.small, f"hydra.sweep.dir={self.folder}")
        return self._run(formula, [*base, *words])

    def go_on(self, formula: Formula, *words: str) -> Sweep:
        """`python -m train sweep.resume=...` with these words."""
        from train.run_words import read

        line = command.expand(read([f"sweep.resume={self.folder}", *words]))
        return self._run(formula, line.argv)

    def _run(self, formula: Formula, argv: list[str]) -> Sweep:
        line = parse(argv)
        sweep = command.prepare(line, compose_jobs(line))
        enter(sweep)
        sweep.folder.mkdir(exist_ok=True)
        sweep.journal.write()
        search = Search()
        search.config, search.launcher = line.base, LocalLauncher()
        with self.monkeypatch.context() as patched:
            patched.setattr(slots, "run", self._jobs(formula))
            search.sweep([])
        return sweep

    def _jobs(self, formula: Formula) -> Callable[..., int]:
        def run(sweep: Sweep, cells: list[Cell], prepare: Any) -> int:
            self.together.append(len(cells))
            for cell in cells:
                sweep.begun.add(cell.folder)
                self.ran.append(cell.job.config)
                cell.folder.mkdir(exist_ok=True)
                again = bool(status.read(cell.folder))
                value = formula(cell.job.config)
                if again:
                    (cell.folder / status.FILE).unlink()
                if value is not None:
                    write_json(cell.folder / "summary.json", {"last": {"val/loss": value}})
                ended(cell.folder, "failed" if value is None else "completed")
            return 0

        return run
