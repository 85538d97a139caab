"""The command, in the process that decides: compose every job, check it, start its ranks."""

from __future__ import annotations

import sys

from omegaconf import DictConfig

from components.cluster.joined import Joined, joined
from components.errors import ConfigError
from train import hydra_api, sweep
from train.command_line import compose_jobs, parse
from train.targets import check_jobs

# torch is imported by the functions that need it: a mistake on the command line is told sooner.


def main() -> None:
    """`python -m train`. Exits with 0 done, 1 failed, 2 refused, 130 interrupted."""
    gang = joined()
    if gang is not None and gang.rank > 0:
        from train.launch import follow_rank

        sys.exit(follow_rank(gang))
    try:
        sys.exit(command(sys.argv[1:], gang))
    except ConfigError as refusal:
        if gang is not None:
            from train.launch import refuse_others

            refuse_others(gang)
        sys.exit(refused(refusal))


def refused(refusal: ConfigError) -> int:
    """Show why a configuration cannot run; the exit code."""
    print(f"refused: {refusal}", file=sys.stderr)
    return 2


def command(argv: list[str], gang: Joined | None) -> int:
    """One command: compose and check all its jobs before the first starts, then run them."""
    line = parse(argv)
    if line.passthrough:
        hydra_api.run(run_job, line.argv)
        return 0
    sweep.refuse_in_gang(line, gang)
    jobs = compose_jobs(line)
    check_jobs(jobs)
    dry_run = any(job.config.dry_run for job in jobs)

    if dry_run or not line.multirun:
        from train.launch import follow_node
        from train.preflight import preflight

        for job in jobs:
            plan = preflight(job.config, gang, job.folder)
            if dry_run:
                print("\n".join([*plan.lines(), f"folder      {job.folder}", ""]))
            elif gang is None and plan.cluster.node_rank > 0:
                return follow_node(plan)
    if not dry_run:
        hydra_api.run(run_job, line.argv)
    return sweep.tell()


def run_job(config: DictConfig) -> float | None:
    """One job, in the folder that Hydra made for it: check it, start its ranks, await their end."""
    from train.launch import lead
    from train.preflight import preflight

    folder, in_sweep = hydra_api.current_job()
    gang = joined()
    try:
        code = lead(preflight(hydra_api.resolved(config), gang, folder), folder, gang)
    except ConfigError as refusal:
        code = sweep.refused(folder, refusal) if in_sweep else refused(refusal)
    return sweep.ended(folder, code) if in_sweep else sys.exit(code)
