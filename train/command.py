"""The command, in the process that decides: compose every job, check it, start its ranks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from omegaconf import DictConfig

from components.cluster.gang import start_server
from components.cluster.joined import Joined
from components.cluster.node_count import elastic
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.signals import Interrupted, call_on_signal, raise_interrupts, raise_missed
from components.cluster.slurm import refuse_unused
from components.errors import ConfigError
from components.logger.stream import unfailing_streams
from train import hydra_api, lock, places, resume, status
from train.allowed_targets import check_allowed
from train.command_line import CommandLine, Job, compose_jobs
from train.groups import check_groups
from train.merge import key_of
from train.preload import preload
from train.run_words import read
from train.slurm import run as slurm
from train.slurm.elsewhere import plan_of
from train.slurm.options import chosen
from train.sweep import command as sweep
from train.sweep import tell
from train.sweep.options import options_of
from train.sweep.present import present
from train.sweep.refusals import (
    refuse_in_gang,
    refuse_launcher,
    refuse_over_nodes,
    refuse_run_dir,
    refuse_several,
)
from train.targets import check_jobs

if TYPE_CHECKING:
    from train.run_plan import Plan

# torch is imported by the functions that need it: a mistake on the command line is told sooner.


def main() -> None:
    """`python -m train`. Exits with 0 done, 1 failed, 2 refused, 75 preempted, 130 interrupted."""
    unfailing_streams()
    try:
        gang = places.gang_of(sys.argv[1:])
    except ConfigError as refusal:
        sys.exit(refused(refusal))
    if gang is not None:
        sys.exit(in_gang(gang))
    raise_interrupts()
    try:
        code = command(sys.argv[1:], None)
    except ConfigError as refusal:
        code = refused(refusal)
    except Interrupted as stop:
        print(f"{stop}", file=sys.stderr)
        tell.end_early()
        # Between two jobs of a sweep, whose folders are all told of already.
        code = PREEMPTED if stop.warning and present() else stop.exit_code
    _leave(code)


def _leave(code: int) -> NoReturn:
    if "components.cluster.answering" not in sys.modules:  # it takes torch
        sys.exit(code)
    from components.cluster.answering import leave

    leave(code)


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
    line = sweep.expand(line)
    refuse_launcher(line)
    submits = chosen(line.base)
    if submits:
        slurm.check_here(gang)
    else:
        places.check(line.base)
        places.refuse_untyped(line.base, gang)
    refuse_in_gang(line, gang)
    refuse_several(line)
    line, going = resume.expand(line, gang)
    jobs = compose_jobs(line)
    for job in jobs if not submits else []:
        places.check(job.composed)
    dry_run = any(job.config.dry_run for job in jobs)
    if line.multirun:
        if not submits:
            refuse_over_nodes(jobs)
        refuse_run_dir(line)
        dry_run |= options_of(line.base).dry_run
    check_groups(jobs)
    check_allowed(line, jobs)
    if gang is None and not dry_run and not submits:
        # Its imports take as long as the checks here, and meanwhile another core.
        start_server(preload(jobs[0].config))
    check_jobs(jobs)
    raise_missed()
    if line.multirun:
        return _sweep(line, jobs, dry_run)
    (job,) = jobs
    if submits:
        return slurm.run(line, job, going)
    return _run(line, job, gang, going)


def _sweep(line: CommandLine, jobs: list[Job], dry_run: bool) -> int:
    planned = sweep.prepare(line, jobs)
    if not dry_run:
        if not chosen(line.base):
            refuse_unused(1, 1)
        return sweep.run(planned)
    if planned.options.dry_run:
        tell.dry_run(planned)
        return 0
    code = 0
    for job, name in zip(jobs, tell.names_of([job.overrides for job in jobs]), strict=True):
        try:
            _show_dry(plan_of(line.base, job, job.folder), job.folder)
        except ConfigError as refusal:
            code = refused(ConfigError(f"{name}: {refusal}"))
    return code


def _run(line: CommandLine, job: Job, gang: Joined | None, going: resume.Going | None) -> int:
    from train.assembly import cannot_take_part
    from train.elastic_follow import follow_elastic
    from train.follow import follow_node
    from train.preflight import preflight

    try:
        plan = resume.onto(preflight(job.config, gang, job.folder), going)
    except ConfigError as refusal:
        if gang is not None or job.config.dry_run or not _looks_for_node_0(job.config):
            raise
        code = refused(refusal)
        cannot_take_part(job.config, str(refusal))
        return code
    if resume.finished(plan, going):
        return 0
    follows = gang is None and plan.cluster.node_rank > 0
    if going is None and not follows:  # node 0 may hold it already
        _check_free(plan, job, gang)
    if job.config.dry_run:
        _show_dry(plan, job.folder)
        return 0
    if gang is None and not plan.cluster.elastic:
        refuse_unused(plan.cluster.nnodes, plan.local_world_size)
    if follows:
        return follow_elastic(plan) if plan.cluster.elastic else follow_node(plan)
    if going is not None:
        lock.take(going.folder.absolute())
        resume.keep(going)
    hydra_api.run(run_job, line.argv)
    return 0


def _looks_for_node_0(config: DictConfig) -> bool:
    """Whether this is another node of a run that waits for it, as far as a config that may be the
    mistake says so. One whose nodes come and go does not wait."""
    node, nnodes = config.cluster.get("node_rank", 0), config.cluster.get("nnodes", 1)
    return isinstance(node, int) and node > 0 and not elastic(nnodes)


def _check_free(plan: Plan, job: Job, gang: Joined | None) -> None:
    from train.launch import refuse_nodes

    try:
        status.check_free(job.folder)
    except ConfigError:
        if gang is None and not job.config.dry_run:
            refuse_nodes(plan)
        raise


def _show_dry(plan: Plan, folder: Path) -> None:
    from train.attempts import warn

    print("\n".join([*plan.lines(), f"folder      {folder}", ""]))
    warn(plan)


def run_job(config: DictConfig) -> None:
    """One run, in the folder that Hydra made for it: check it, start its ranks, await their end.

    Raises:
        SystemExit: with the run's exit code.
    """
    from train.preflight import preflight

    folder = hydra_api.current_folder()
    gang = places.gang_of(sys.argv[1:])
    try:
        going = resume.kept(folder)
        plan = resume.onto(preflight(hydra_api.resolved(config), gang, folder), going)
        code = _lead(plan, folder, gang, Notice(), going is not None)
    except ConfigError as refusal:
        # Not raised on: Hydra would take it for a crash of the job.
        if gang is not None:
            from train.member import dismiss

            dismiss(gang, 2)
        code = refused(refusal)
    sys.exit(code)


def _lead(plan: Plan, folder: Path, gang: Joined | None, notice: Notice, again: bool) -> int:
    if gang is not None:
        from train.member import lead_gang

        return lead_gang(plan, folder, gang, again)
    from train.launch import lead

    return lead(plan, folder, notice, again)
