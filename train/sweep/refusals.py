"""Sweeps that cannot be, whatever their jobs are."""

from __future__ import annotations

import shlex

from components.cluster.joined import Joined
from components.errors import ConfigError
from train.command_line import CommandLine, Job
from train.hydra_api import BASIC_LAUNCHER


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


def refuse_over_nodes(jobs: list[Job]) -> None:
    """Refuse a sweep whose jobs each need the same command typed on several machines.

    Raises:
        ConfigError: with what to do instead.
    """
    over = [job for job in jobs if int(job.config.cluster.get("nnodes", 1)) > 1]
    if over:
        nnodes = over[0].config.cluster.nnodes
        raise ConfigError(
            f"-m with cluster.nnodes={nnodes}: a sweep is run from one machine. Run its jobs "
            "one by one, each command on all nodes, or keep each job on one node by "
            "cluster=single_node."
        )


def refuse_launcher(line: CommandLine) -> None:
    """Refuse launchers that know nothing of ranks, folders and ends of runs.

    Raises:
        ConfigError: naming what does the same.
    """
    launcher = line.base.hydra.launcher.get("_target_")
    if launcher != BASIC_LAUNCHER:
        choice = line.base.hydra.runtime.choices.get("hydra/launcher")
        raise ConfigError(
            f"hydra/launcher={choice} starts jobs without regard to their ranks. Leave it out: "
            "sweep.slots=N runs N jobs at once, each on its share of this machine."
        )
