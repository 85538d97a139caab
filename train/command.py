"""The command, in the process that decides: compose every job, check it, start its ranks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from components.cluster.gang import start_server
from components.cluster.joined import Joined, joined
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.signals import Interrupted, call_on_signal, raise_interrupts
from components.errors import ConfigError
from components.logger.stream import unfailing_streams
from train import hydra_api, lock, resume, status, sweep
from train.command_line import compose_jobs
from train.groups import check_groups
from train.merge import key_of
from train.preload import preload
from train.run_words import read
from train.targets import check_jobs

if TYPE_CHECKING:
    from train.run_plan import Plan

# torch is imported by the functions that need it: a mistake on the command line is told sooner.


def main() -> None:
    """`python -m train`. Exits with 0 done, 1 failed, 2 refused, 75 preempted, 130 interrupted."""
    unfailing_streams()
    try:
        gang = joined()
    except ConfigError as refusal:
        sys.exit(refused(refusal))
    if gang is not None:
        sys.exit(in_gang(gang))
    raise_interrupts()
    try:
        sys.exit(command(sys.argv[1:], None))
    except ConfigError as refusal:
        sys.exit(refused(refusal))
    except Interrupted as stop:
        print(f"{stop}", file=sys.stderr)
        sweep.tell()
        # Between two jobs of a sweep, whose folders are all told of already.
        sys.exit(PREEMPTED if stop.warning and sweep.begun() else stop.exit_code)


def in_gang(gang: Joined) -> int:
    """The command in a process that an outside launcher has started; the exit code."""
    from train.member import dismiss, follow_rank

    if gang.rank > 0:
        return follow_rank(gang)
    call_on_signal(lambda signum: os._exit(128 + signum))
    try:
        code = command(sys.argv[1:], gang)
    except ConfigError as refusal:
        code = refused(refusal)
    # A command that comes back here had no run to lead: it was refused, dry or a question.
    dismiss(gang, code)
    return code


def refused(refusal: ConfigError) -> int:
    """Show why a configuration cannot run; the exit code."""
    print(f"refused: {refusal}", file=sys.stderr)
    return 2


def command(argv: list[str], gang: Joined | None) -> int:
    """One command: compose and check all its jobs before the first starts, then run them."""
    line = read(argv)
    if line.passthrough:
        if any(key_of(text) == "resume" for text in line.overrides):
            told = "shown without the words of the run behind resume; dry_run=true has them"
            print(told, file=sys.stderr)
        hydra_api.run(run_job, line.argv)
        return 0
    sweep.refuse_in_gang(line, gang)
    line, going = resume.expand(line, gang)
    jobs = compose_jobs(line)
    sweep.refuse_over_nodes(line, jobs)
    check_groups(jobs)
    dry_run = any(job.config.dry_run for job in jobs)
    if gang is None and not dry_run:
        # Its imports take as long as the checks here, and meanwhile another core.
        start_server(preload(jobs[0].config))
    check_jobs(jobs)

    if dry_run or not line.multirun:
        from train.follow import follow_node
        from train.preflight import preflight

        for job in jobs:
            plan = resume.onto(preflight(job.config, gang, job.folder), going)
            if resume.finished(plan, going):
                return 0
            if dry_run:
                if going is None:
                    status.check_free(job.folder)
                print("\n".join([*plan.lines(), f"folder      {job.folder}", ""]))
            elif gang is None and plan.cluster.node_rank > 0:
                return follow_node(plan)
    if not dry_run:
        if going is None:
            for job in jobs:
                status.check_free(job.folder)
        else:
            lock.take(going.folder.absolute())
            resume.keep(going)
        sweep.keep(jobs)
        hydra_api.run(run_job, line.argv)
    return sweep.tell()


def run_job(config: DictConfig) -> float | None:
    """One job, in the folder that Hydra made for it: check it, start its ranks, await their end."""
    from train.preflight import preflight

    folder, number = hydra_api.current_job()
    in_sweep = number is not None
    gang = joined()
    notice = Notice()
    if number is not None:
        sweep.started(folder, number)
    try:
        config = hydra_api.resolved(sweep.kept(number, config))
        going = resume.kept(folder)
        plan = resume.onto(preflight(config, gang, folder), going)
        code = _lead(plan, folder, gang, notice, going is not None)
    except ConfigError as refusal:
        # Not raised on: Hydra would take it for a crash of the job.
        if gang is not None:
            from train.member import dismiss

            dismiss(gang, 2)
        if in_sweep:
            sweep.refused(folder, refusal)
        code = refused(refusal)
    if in_sweep and (code == PREEMPTED or notice.asked):
        sweep.tell()
        sys.exit(PREEMPTED)
    return sweep.objective(folder) if in_sweep else sys.exit(code)


def _lead(plan: Plan, folder: Path, gang: Joined | None, notice: Notice, again: bool) -> int:
    if gang is not None:
        from train.member import lead_gang

        return lead_gang(plan, folder, gang, again)
    from train.launch import lead

    return lead(plan, folder, notice, again)
