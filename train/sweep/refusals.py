"""Sweeps that cannot be, whatever their jobs are."""

from __future__ import annotations

import shlex

from components.cluster.joined import Joined
from components.cluster.node_count import node_counts
from components.errors import ConfigError
from train.command_line import CommandLine, Job
from train.hydra_api import BASIC_LAUNCHER, SLURM_LAUNCHER, is_search, launcher_of
from train.merge import key_of
from train.problems import refuse
from train.slurm.options import options_of
from train.sweep.options import ROOT, SweepOptions

WHOLE = (ROOT, "hydra")
"""What the first part of a key says that no job has for itself."""


def refuse_in_gang(line: CommandLine, gang: Joined | None) -> None:
    """Refuse a sweep inside somebody else's gang: each job needs a gang of its own.

    Raises:
        ConfigError: with the command that works.
    """
    if gang is None or not line.multirun:
        return
    words = shlex.join(["python", "-m", "train", "-m", *line.overrides])
    raise ConfigError(
        f"-m under {gang.launcher}: a sweep starts a fresh gang of processes for each job, and "
        f"{gang.launcher} has started one already. Run instead: {words} "
        f"cluster.nproc_per_node={gang.local_world_size}"
    )


def refuse_several(line: CommandLine) -> None:
    """Refuse several values of what a sweep has once: its own keys, and Hydra's.

    Raises:
        ConfigError: listing them.
    """
    if not line.multirun:
        return
    problems = []
    for override in line.composer.parse(line.overrides):
        key = override.key_or_group
        if not override.is_sweep_override() or key.replace("/", ".").split(".")[0] not in WHOLE:
            continue
        text = override.input_line or ""
        cure = "Give it one value."
        if key == ROOT:
            cure = f"For all of them together write '{key}=[{text.partition('=')[2]}]'."
        problems.append(f"{text}: {key} is one for the whole sweep, no job has its own. {cure}")
    refuse(problems)


def refuse_over_nodes(jobs: list[Job]) -> None:
    """Refuse a sweep whose jobs each need the same command typed on several machines.

    Raises:
        ConfigError: with what to do instead.
    """
    over = [job for job in jobs if node_counts(job.config.cluster.get("nnodes", 1))[1] > 1]
    if over:
        nnodes = over[0].config.cluster.nnodes
        raise ConfigError(
            f"-m with cluster.nnodes={nnodes}: a sweep is run from one machine. Run its jobs "
            "one by one, each command on all nodes, or keep each job on one node by "
            "cluster=single_node. Under Slurm hydra/launcher=slurm submits them."
        )


def refuse_launcher(line: CommandLine) -> None:
    """Refuse launchers that know nothing of ranks, folders and ends of runs.

    Raises:
        ConfigError: naming what does the same.
    """
    if launcher_of(line.base) not in (BASIC_LAUNCHER, SLURM_LAUNCHER):
        choice = line.base.hydra.runtime.choices.get("hydra/launcher")
        raise ConfigError(
            f"hydra/launcher={choice} starts jobs without regard to their ranks. Leave it out: "
            "sweep.slots=N runs N jobs at once, each on its share of this machine, and "
            "hydra/launcher=slurm submits them."
        )


def refuse_unfit(line: CommandLine, options: SweepOptions) -> None:
    """Refuse what a sweep that is submitted has no use for.

    Raises:
        ConfigError: with what is meant instead.
    """
    if is_search(line.base):
        if not options_of(line.base).wait:
            raise ConfigError(
                "hydra.launcher.wait=false with a search: its next jobs follow from what the first "
                "ones come to. Leave it out."
            )
    elif options.slots > 1:
        raise ConfigError(
            f"sweep.slots={options.slots} with hydra/launcher=slurm: slots are shares of one "
            f"machine. Jobs in Slurm at once are hydra.launcher.parallel={options.slots}."
        )


def refuse_run_dir(line: CommandLine) -> None:
    """Refuse a folder for one run: no job of a sweep would go there.

    Raises:
        ConfigError: naming the key for sweeps.
    """
    for text in line.overrides:
        if key_of(text) == "hydra.run.dir":
            raise ConfigError(
                f"-m with {text}: that is the folder of a single run. A sweep's is hydra.sweep.dir."
            )
