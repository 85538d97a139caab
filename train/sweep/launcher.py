"""Hydra's launcher of this project: the jobs of a sweep, one at a time or several at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import ClassVar

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from components.cluster.preemption import PREEMPTED
from train import hydra_api
from train.sweep import job, slots, tell
from train.sweep.cells import Cell, Fate
from train.sweep.decided import decided
from train.sweep.present import Sweep, present

FAILED = 1


class LocalLauncher(Launcher):
    """Runs jobs on this machine, each in fresh processes and in the folder planned for it.

    A job that fails is no exception: its folder tells, and the next one runs, unless
    `sweep.on_error=stop`.
    """

    starts: ClassVar[tuple[Fate, ...]] = ("run", "go on")
    """What is to become of the jobs that are this launcher's to see to."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.context = hydra_context

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs to their ends; each one's objective is its return value.

        Raises:
            SystemExit: when the jobs that are left must not start; all is told by then.
        """
        sweep = present()
        assert sweep is not None
        cells = [
            self._cell(sweep, initial_job_idx + offset, list(overrides))
            for offset, overrides in enumerate(job_overrides)
        ]
        # A search may come back to a point: its job runs once.
        ready = {cell.folder: cell for cell in cells if cell.fate in self.starts}
        waiting = [cell for folder, cell in ready.items() if folder not in sweep.begun]
        code = self.run_jobs(sweep, waiting)
        if code == PREEMPTED or sweep.notice.asked:
            ended = tell.end_at_once(sweep)
            # A signal in the last step of the last job has kept no job from its end.
            sys.exit(PREEMPTED if ended == FAILED or sweep.search else ended)
        if code == FAILED and sweep.options.on_error == "stop":
            print("sweep.on_error=stop: no further job is started", file=sys.stderr, flush=True)
            sys.exit(tell.end(sweep))
        return [self._result(sweep, cell) for cell in cells]

    def run_jobs(self, sweep: Sweep, cells: Sequence[Cell]) -> int:
        """See `slots.run`."""
        return slots.run(sweep, list(cells), self.prepare)

    def _cell(self, sweep: Sweep, number: int, overrides: list[str]) -> Cell:
        if not sweep.search:
            return sweep.cells[number]
        for known in sweep.cells:
            if known.job.overrides == overrides:
                return known
        cell = decided(sweep.line, sweep.journal, overrides, len(sweep.cells))
        sweep.cells.append(cell)
        sweep.journal.write()
        return cell

    def prepare(self, cell: Cell) -> DictConfig:
        """Make a job's folder with what Hydra keeps of it; the job's resolved config."""
        config = cell.job.composed.copy()
        hydra_api.place_job(config, cell.folder, cell.number)
        return hydra_api.enter_job(self.context, config)

    def _result(self, sweep: Sweep, cell: Cell) -> JobReturn:
        result = JobReturn(overrides=cell.job.overrides, status=JobStatus.COMPLETED)
        result.return_value = job.objective(cell.folder, sweep.options.objective)
        return result
