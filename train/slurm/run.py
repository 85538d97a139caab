"""A single run as a job of Slurm: `python -m train hydra/launcher=slurm ...`, without `-m`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from components.cluster.joined import Joined
from components.cluster.preemption import PREEMPTED
from components.cluster.signals import Interrupted
from components.errors import ConfigError
from train import hydra_api, resume, status
from train.slurm import placed, queue, tell
from train.slurm.elsewhere import nodes_of, plan_elsewhere
from train.slurm.follow import Follower, Watched
from train.slurm.options import SlurmOptions, options_of
from train.slurm.queue import Unanswered
from train.slurm.submission import alive, submit

if TYPE_CHECKING:
    from train.command_line import CommandLine, Job
    from train.run_plan import Plan

CODES = {"completed": 0, "failed": 1, "refused": 2, "preempted": PREEMPTED}


def check_here(gang: Joined | None) -> None:
    """Refuse to submit from where that cannot be done.

    Raises:
        ConfigError: in a gang, or where Slurm's commands are not.
    """
    if gang is not None:
        raise ConfigError(
            f"hydra/launcher=slurm under {gang.launcher}, which has started {gang.world_size} "
            "processes: one command submits. Leave the launcher in front of it out."
        )
    queue.check_there()


def run(line: CommandLine, job: Job, going: resume.Going | None) -> int:
    """Check a run, submit it and follow it; its exit code.

    Args:
        going: what it goes on with.

    Raises:
        ConfigError: when it cannot run, or is in the queue already.
    """
    options, folder = options_of(line.base), job.folder.absolute()
    if going is not None and going.named:
        raise ConfigError(
            f"resume={going.found.checkpoint} with hydra/launcher=slurm: a job goes on from its "
            f"run's newest checkpoint. Give resume={going.folder}."
        )
    refuse_alive(folder)
    plan = resume.onto(plan_elsewhere(options, job, folder), going)
    if resume.finished(plan, going):
        return 0
    if going is None:
        status.check_free(folder)
    if job.config.dry_run:
        print("\n".join([*plan.lines(), f"folder      {job.folder}", ""]))
        return 0

    def enter(config: DictConfig) -> None:
        folder = hydra_api.current_folder()
        placed.write(folder, hydra_api.resolved(config), config)
        sys.exit(_submitted(plan, folder, options, job))

    hydra_api.run(enter, line.argv)
    return 0


def refuse_alive(folder: Path) -> None:
    """Refuse a run whose job waits or runs already.

    Raises:
        ConfigError: naming the job.
    """
    try:
        found = alive(folder)
    except Unanswered as error:
        raise ConfigError(
            f"{folder} has been submitted before, and whether its job is over is not known: {error}"
        ) from error
    for one, index in found.values():
        raise ConfigError(
            f"{folder} is in Slurm already, as job {one.element(index)}. Wait for its end, or "
            f"scancel {one.element(index)}; a run is never led by two."
        )


def _submitted(plan: Plan, folder: Path, options: SlurmOptions, job: Job) -> int:
    print("\n".join([*plan.lines(), f"folder      {folder}"]), flush=True)
    try:
        one = submit(folder, [folder], options, nodes_of(job), array=False)
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return CODES["refused"]
    tell.submitted(one)
    if not options.wait:
        tell.left([one], None)
        return 0
    try:
        Follower([Watched(one, 0, "the run", f"the run: {' '.join(job.overrides)}")]).run()
    except Interrupted as stop:
        print(f"\n{stop}: the job lives on in Slurm", file=sys.stderr)
        tell.left([one], None)
        return PREEMPTED if stop.warning else stop.exit_code
    return CODES.get(status.read(folder)["status"], 1)
