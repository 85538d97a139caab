"""The command of a sweep: plan all its jobs, run those that are not done, compare."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from components.errors import ConfigError
from train import hydra_api, lock, run_names, status
from train.allowed_targets import KEY
from train.command_line import CommandLine, Job, parse
from train.folder_words import check_config_folder, check_words
from train.merge import folder_word, key_of
from train.slurm.launcher import SlurmLauncher
from train.slurm.options import chosen, refuse_setup_of
from train.slurm.queue import Unanswered
from train.slurm.submission import alive
from train.sweep import tell
from train.sweep.cells import Cell, plan, refuse_taken
from train.sweep.decided import decided_before
from train.sweep.journal import FILE, Journal, read_journal, sweep_folder
from train.sweep.launcher import LocalLauncher
from train.sweep.options import SweepOptions, options_of
from train.sweep.present import Sweep, enter
from train.sweep.refusals import refuse_unfit
from train.sweep.search import Search
from train.sweep.share import shares


def expand(line: CommandLine) -> CommandLine:
    """The command line in full: with the words of the sweep that it goes on with, if it has none.

    Raises:
        ConfigError: when there is no such sweep, or its words name no sweep.
    """
    if line.passthrough:
        return line
    text = options_of(line.base).resume
    if text is None or line.multirun:
        return line
    journal = read_journal(sweep_folder(text))
    check_words(journal.words, journal.folder, "sweep.resume", sweep=True)
    for word in journal.words:
        if word.startswith(("--config-dir=", "--config-path=")):
            check_config_folder(word.partition("=")[2], journal.folder, "sweep.resume")
    own = {KEY, *(key_of(word) for word in line.argv)}
    words = [word for word in journal.words if word == "--multirun" or _kept(key_of(word), own)]
    found = parse([*words, *line.argv])
    if not found.multirun:
        raise ConfigError(f"sweep.resume={text}: the words of that sweep begin none. Add -m.")
    if chosen(found.base):
        refuse_setup_of(found.base, own, journal.folder)
    return found.with_words_of(journal.folder, line)


def _kept(key: str, own: Collection[str]) -> bool:
    """Whether a word of the sweep holds beside those of the command: a launcher has its own."""
    return key not in own and not ("hydra/launcher" in own and key.startswith("hydra.launcher."))


def prepare(line: CommandLine, jobs: list[Job]) -> Sweep:
    """The sweep of a command, planned; nothing is written.

    Raises:
        ConfigError: when it cannot be, as when the machine has no room for its slots.
    """
    options = options_of(line.base)
    submits = chosen(line.base)
    if submits:
        refuse_unfit(line, options)
    elif options.slots > 1:
        shares(options.slots, jobs)
    if options.resume is None:
        journal = _begun(line)
    else:
        journal = read_journal(sweep_folder(options.resume).absolute())
        refuse_taken(journal.folder, "sweep")
    journal.shared = run_names.left_out()
    search = hydra_api.is_search(line.base)
    queued = {} if options.resume is None else _queued(journal, search)
    cells = _earlier(line, journal, options) if search else plan(jobs, journal, queued)
    return Sweep(line, replace(options, resume=None), journal, cells, search)


def _begun(line: CommandLine) -> Journal:
    folder = line.composer.sweep_dir(line.base).absolute()
    if (folder / FILE).exists():
        raise ConfigError(
            f"hydra.sweep.dir={folder} holds a sweep already. Go on with it by "
            f"sweep.resume={folder}, or take another folder."
        )
    runs = [path.parent for pattern in ("", "*/") for path in folder.glob(pattern + status.FILE)]
    if runs:
        raise ConfigError(
            f"hydra.sweep.dir={folder} holds a run that is none of this sweep's ({runs[0]}), and "
            f"no {FILE}. Take another folder; a run is never written by another command's jobs."
        )
    return Journal(folder, line.argv, [])


def _queued(journal: Journal, search: bool) -> dict[Path, str]:
    """The jobs of a sweep that an earlier command has submitted and that are not over."""
    try:
        found = alive(journal.folder)
    except Unanswered as error:
        raise ConfigError(
            f"sweep.resume={journal.folder}: which of its jobs are in Slurm's queue is not known: "
            f"{error}. Try again when Slurm answers."
        ) from error
    named = {folder: one.element(index) for folder, (one, index) in found.items()}
    if named and search:
        raise ConfigError(
            f"sweep.resume={journal.folder}: {', '.join(named.values())} of this search are in "
            "Slurm still. Wait for their ends, or scancel them."
        )
    return named


def _earlier(line: CommandLine, journal: Journal, options: SweepOptions) -> list[Cell]:
    """The jobs that a search has decided on so far."""
    if hydra_api.is_own_search(line.base):
        return decided_before(line, journal, options)
    if options.resume is None:
        return []
    raise ConfigError(
        f"sweep.resume={options.resume}: this sweeper decides on its jobs by what came before, "
        "and that is not kept. hydra/sweeper=search keeps it."
    )


def run(sweep: Sweep) -> int:
    """Run the sweep; its exit code.

    Raises:
        ConfigError: when another command runs it, or its folder cannot be written.
    """
    try:
        sweep.folder.mkdir(parents=True, exist_ok=True)
        lock.take(sweep.folder, "sweep")
        enter(sweep)
        sweep.journal.write()
    except OSError as error:
        raise ConfigError(
            f"{sweep.folder}, the sweep's folder, cannot be written ({error.strerror}). Make it a "
            "folder with room that you may write, or set hydra.sweep.dir to another."
        ) from error
    print(tell.plan(sweep), flush=True)
    argv = [*sweep.line.argv, folder_word("hydra.sweep.dir", sweep.folder)]
    hydra_api.run_sweep(LocalLauncher, SlurmLauncher, Search, argv)
    return tell.end(sweep)
