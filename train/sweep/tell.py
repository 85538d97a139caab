"""What a sweep says at its end, and before its beginning."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

from components.errors import ConfigError
from train import resume, status
from train.command_line import common
from train.slurm.elsewhere import plan_of
from train.sweep import job
from train.sweep.best import write_best
from train.sweep.cells import Cell, Fate
from train.sweep.present import Sweep, present
from train.sweep.report_run import send_report

PLANNED: dict[Fate, str] = {
    "done": "completed already",
    "go on": "to go on",
    "run": "to run",
    "refused": "refused",
    "queued": "submitted already",
}

ENDS = {0: "completed", 1: "failed", 2: "refused"}


def end(sweep: Sweep) -> int:
    """Compare the runs, tell how it ended, here and to W&B; the sweep's exit code."""
    code = end_at_once(sweep)
    if sweep.begun:
        send_report(sweep, ENDS[code])
    return code


def end_at_once(sweep: Sweep) -> int:
    """Compare the runs, name the jobs that did not complete; the sweep's exit code."""
    states = [(cell, status.read(cell.folder)) for cell in sweep.cells]
    bad = [(cell, state) for cell, state in states if state.get("status") != "completed"]
    if sweep.begun or not bad:
        _compare(sweep)
    if sweep.search:
        print(write_best(sweep, names_of([cell.job.overrides for cell in sweep.cells])), flush=True)
    out = sys.stderr
    print(f"\n{len(states) - len(bad)} of {len(states)} jobs completed: {sweep.folder}", file=out)
    for cell, state in bad:
        if state:
            words = job.headline(cell.folder, sweep.options.objective)
            print(f"  {cell.folder.name}: {words}", file=out)
    left = sum(not state for _, state in bad)
    if left:
        print(f"  not started: {left} job{'s' if left > 1 else ''}", file=out)
    if any(state.get("status") != "refused" for _, state in bad):
        words = "the same command, or only: python -m train"
        print(f"to go on: {words} sweep.resume={sweep.folder}", file=out, flush=True)
        return 1
    return 2 if bad else 0


def end_early() -> None:
    """The same where a signal has ended the sweep of this process, if it runs one."""
    sweep = present()
    if sweep is not None:
        end_at_once(sweep)


def _compare(sweep: Sweep) -> None:
    """The table, and the files beside the runs; no fault of theirs is a fault of a run's."""
    from train import compare

    try:
        compare.write(sweep.folder, [sweep.folder / e.folder for e in sweep.journal.entries])
    except Exception as error:
        print(
            f"no comparison ({type(error).__name__}: {error}); once the cause is mended: "
            f"python -m train.compare {sweep.folder}",
            file=sys.stderr,
        )


def plan(sweep: Sweep) -> str:
    """One line for what is to become of the jobs."""
    fates = Counter(cell.fate for cell in sweep.cells)
    told = ", ".join(f"{fates[fate]} {text}" for fate, text in PLANNED.items() if fates[fate])
    if sweep.search:
        told = ", ".join(filter(None, [told, "a search: further jobs follow from what these give"]))
    return f"sweep       {told}\nfolder      {sweep.folder}"


def dry_run(sweep: Sweep) -> None:
    """List the jobs with what would become of each; nothing is made."""
    names = names_of([cell.job.overrides for cell in sweep.cells])
    width = max(map(len, names), default=0)
    tried = []
    for cell, name in zip(sweep.cells, names, strict=True):
        tried.append(_tried(sweep, cell))
        print(f"{cell.number:>4}  {name:<{width}}  {tried[-1].words}", flush=True)
    print(plan(replace(sweep, cells=tried)), flush=True)


def names_of(jobs: list[list[str]]) -> list[str]:
    """Of each job the overrides that not all of them share."""
    shared = common(jobs)
    names = [" ".join(text for text in own if text not in shared) for own in jobs]
    return [name or "(no overrides)" for name in names]


def _tried(sweep: Sweep, cell: Cell) -> Cell:
    """The cell, refused where its job could not start."""
    if cell.fate in ("done", "refused", "queued"):
        return cell
    try:
        going = resume.going_on(cell.folder) if cell.fate == "go on" else None
        resume.onto(plan_of(sweep.line.base, cell.job, cell.folder), going)
    except ConfigError as refusal:
        return replace(cell, fate="refused", words=f"refused: {refusal}")
    return cell
