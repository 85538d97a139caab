"""The cell of a job that a search has decided on while it runs."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from components.errors import ConfigError
from train import status
from train.command_line import CommandLine, Job, compose_job
from train.run_names import short_name, telling
from train.sweep import job
from train.sweep.cells import Cell, new_cell
from train.sweep.journal import Entry, Journal
from train.sweep.options import SweepOptions
from train.sweep.search_options import searched
from train.sweep.study import check_study


def decided(line: CommandLine, journal: Journal, overrides: list[str], number: int) -> Cell:
    """The job's cell; one that is refused, and told of in its folder, if it does not compose.

    Raises:
        ConfigError: when another process leads the job's run at the moment.
    """
    try:
        composed = compose_job(line, overrides, number)
    except ConfigError as refusal:
        return _refused(journal, overrides, number, str(refusal))
    return new_cell(composed, number, journal)


def decided_before(line: CommandLine, journal: Journal, options: SweepOptions) -> list[Cell]:
    """The cells of a search that is gone on with; none for one that begins.

    Raises:
        ConfigError: when the search cannot be, or cannot be gone on with by this command.
    """
    own, space = searched(line)
    if own.sampler == "grid":
        space.grid()
    check_study(journal.folder, space, options)
    cells: list[Cell] = []
    for overrides in [entry.overrides for entry in journal.entries]:
        if all(cell.job.overrides != overrides for cell in cells):
            cells.append(decided(line, journal, overrides, len(cells)))
    return cells


def _refused(journal: Journal, overrides: list[str], number: int, cause: str) -> Cell:
    name = f"{number}_{short_name(telling(overrides))}"
    entry = journal.twin(overrides) or Entry(name, overrides, f"none: {' '.join(overrides)}")
    journal.add(entry)
    folder = journal.folder / entry.folder
    if not status.read(folder):
        kept = folder / ".hydra" / "overrides.yaml"
        kept.parent.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(OmegaConf.create(overrides), kept)
        job.record(folder, "refused", cause)
    none = OmegaConf.create()
    return Cell(Job(overrides, none, Path(name), none, number), number, folder, "refused", cause)
