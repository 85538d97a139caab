"""Hydra's launcher of a sweep whose jobs are elements of an array of Slurm."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from components.cluster.preemption import PREEMPTED
from components.cluster.signals import Interrupted
from components.errors import ConfigError
from train import resume, status
from train.slurm import placed, tell
from train.slurm.elsewhere import nodes_of, plan_elsewhere
from train.slurm.follow import Follower, Watched
from train.slurm.options import SlurmOptions, options_of
from train.slurm.submission import Submission, alive, submit
from train.sweep import job
from train.sweep.cells import Cell
from train.sweep.launcher import LocalLauncher
from train.sweep.present import Sweep
from train.sweep.slots import DONE, FAILED, title


class SlurmLauncher(LocalLauncher):
    """Submits the jobs of a sweep, those that can run, and follows them to their ends.

    Args:
        options: as the command's config has them, where they are read.
    """

    starts = (*LocalLauncher.starts, "queued")

    def __init__(self, **options: Any) -> None:
        super().__init__()

    def run_jobs(self, sweep: Sweep, cells: Sequence[Cell]) -> int:
        """Submit what is not in the queue, and follow all of it; see `slots.run`.

        Raises:
            SystemExit: when the jobs are left to themselves; how to find them is told by then.
        """
        options = options_of(sweep.line.base)
        going = alive(sweep.folder) if any(cell.fate == "queued" for cell in cells) else {}
        ready = [cell for cell in cells if cell.folder not in going and self._ready(sweep, cell)]
        made = _submit(sweep, ready, options)
        by_folder = dict(going)
        for one in made:
            by_folder |= {one.folder(index): (one, index) for index in range(len(one.runs))}
        watched = [
            Watched(*by_folder[cell.folder], f"job {cell.number}", title(sweep, cell))
            for cell in cells
            if cell.folder in by_folder
        ]
        sweep.begun |= {one.folder for one in watched}
        submissions = {one.submission.place: one.submission for one in watched}.values()
        if watched and not options.wait:
            tell.left(submissions, sweep.folder, bool(options.setup))
            sys.exit(DONE)
        stops = sweep.options.on_error == "stop"
        try:
            Follower(watched, sweep.options.objective, stops).run()
        except Interrupted as stop:
            print(f"\n{stop}: the jobs live on in Slurm", file=sys.stderr)
            tell.left(submissions, sweep.folder, bool(options.setup))
            sys.exit(PREEMPTED if stop.warning else stop.exit_code)
        ends = {status.read(one.folder).get("status") for one in watched}
        if "preempted" in ends:
            return PREEMPTED
        return FAILED if stops and "failed" in ends else DONE

    def _ready(self, sweep: Sweep, cell: Cell) -> bool:
        """Make a job's folder, and check the job; whether it is to be submitted."""
        config = self.prepare(cell)
        try:
            going = resume.going_on(cell.folder) if cell.fate == "go on" else None
            resume.onto(plan_elsewhere(options_of(sweep.line.base), cell.job, cell.folder), going)
        except ConfigError as refusal:
            job.record(cell.folder, "refused", str(refusal))
            sweep.begun.add(cell.folder)
            print(f"job {cell.number} is refused: {refusal}", file=sys.stderr, flush=True)
            return False
        placed.write(cell.folder, config, cell.job.composed)
        return True


def _submit(sweep: Sweep, cells: Sequence[Cell], options: SlurmOptions) -> list[Submission]:
    """One array for all jobs; where they differ in their nodes, one for each number of them."""
    made = []
    for nodes in sorted({nodes_of(cell.job) for cell in cells}):
        folders = [cell.folder for cell in cells if nodes_of(cell.job) == nodes]
        try:
            made.append(submit(sweep.folder, folders, options, nodes, array=True))
        except ConfigError as refusal:
            print(f"refused: {refusal}", file=sys.stderr, flush=True)
            if made:
                print("submitted are the arrays above, which live on", file=sys.stderr)
                tell.left(made, sweep.folder, bool(options.setup))
            sys.exit(2)
        tell.submitted(made[-1])
    return made
