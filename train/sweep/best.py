"""best.json: the job of a search whose objective is the best."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from train.files import write_json
from train.merge import key_of
from train.sweep import job
from train.sweep.cells import Cell
from train.sweep.options import LOSS, ROOT, SweepOptions
from train.sweep.present import Sweep

FILE = "best.json"


@dataclass(frozen=True)
class Best:
    """The best job so far.

    Attributes:
        value: its objective.
    """

    cell: Cell
    value: float


def best(cells: list[Cell], options: SweepOptions) -> Best | None:
    """The job with the best objective; None when no job has one."""
    values = ((cell, job.objective(cell.folder, options.objective)) for cell in cells)
    found = [Best(cell, value) for cell, value in values if value is not None]
    choose = min if options.direction == "minimize" else max
    return choose(found, key=lambda one: one.value, default=None)


def write_best(sweep: Sweep, own: list[str]) -> str:
    """Write it down; in words what it is.

    Args:
        own: for each cell the overrides that not all of them share.
    """
    found, options = best(sweep.cells, sweep.options), sweep.options
    if found is None:
        return f"best: none, no job came to a {options.objective or LOSS}"
    write_json(
        sweep.folder / FILE,
        {
            "objective": options.objective or LOSS,
            "direction": options.direction,
            "value": found.value,
            "job": found.cell.number,
            "folder": found.cell.folder.name,
            "overrides": _own(found.cell),
            "jobs": len(sweep.cells),
        },
    )
    words = own[found.cell.number]
    told = f"best: job {found.cell.number} {options.objective or LOSS} {found.value:.4g}: {words}"
    return f"{told}\nthe same again: {shlex.join(['python', '-m', 'train', *_own(found.cell)])}"


def _own(cell: Cell) -> list[str]:
    """The overrides of a run like this job: without those that make a sweep of it."""
    words = [(key_of(text).partition(".")[0], text) for text in cell.job.overrides]
    return [text for key, text in words if key != ROOT]
