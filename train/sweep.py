"""What happens to the jobs of a `-m` sweep: each to its own end, all of them told at last."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from components.cluster.joined import Joined
from components.errors import ConfigError
from train import failure, status
from train.files import read_json

if TYPE_CHECKING:
    from train.command_line import CommandLine, Job

OBJECTIVE = "val/loss"
"""The metric whose last value a search over configs is given."""

_jobs: list[Path] = []
_composed: dict[int, DictConfig] = {}


def keep(jobs: list[Job]) -> None:
    """Keep every job's config as it was checked: a file that is edited later changes none."""
    _composed.update({job.number: job.source for job in jobs if job.number is not None})


def kept(number: int | None, composed_again: DictConfig) -> DictConfig:
    """The config that a job was checked with, else the one that Hydra composed for it now."""
    return composed_again if number is None else _composed.get(number, composed_again)


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


def refuse_over_nodes(line: CommandLine, jobs: list[Job]) -> None:
    """Refuse a sweep whose jobs each need the same command typed on several machines.

    Raises:
        ConfigError: with what to do instead.
    """
    over = [job for job in jobs if int(job.config.cluster.get("nnodes", 1)) > 1]
    if line.multirun and over:
        nnodes = over[0].config.cluster.nnodes
        raise ConfigError(
            f"-m with cluster.nnodes={nnodes}: a sweep is run from one machine. Run its jobs "
            "one by one, each command on all nodes, or keep each job on one node by "
            "cluster=single_node."
        )


def started(folder: Path, number: int) -> None:
    """Note and announce a job of the sweep."""
    _jobs.append(folder)
    overrides = " ".join(OmegaConf.load(folder / ".hydra" / "overrides.yaml"))
    print(f"\njob {number} of 0 to {len(_composed) - 1}: {overrides}", flush=True)


def begun() -> bool:
    """Whether a job has been started."""
    return bool(_jobs)


def refused(folder: Path, refusal: ConfigError) -> None:
    """Record a job that was refused."""
    if not (folder / status.FILE).exists():
        status.claim(folder)
    told = failure.Failure(None, "refused", str(refusal), time.time())
    attempt = status.read(folder).get("attempts", 1)
    status.finish(folder, "refused", failure.in_status(told), attempt=attempt)


def objective(folder: Path) -> float | None:
    """A job's objective for a search; None without one."""
    value = read_json(folder / "summary.json").get("last", {}).get(OBJECTIVE)
    return None if value is None else float(value)


def tell() -> int:
    """Name the jobs that did not complete; the sweep's exit code."""
    states = [(folder, status.read(folder)) for folder in _jobs]
    bad = [(folder, state) for folder, state in states if state.get("status") != "completed"]
    if states:
        print(f"\n{len(states) - len(bad)} of {len(states)} jobs completed", file=sys.stderr)
    for folder, state in states:
        if state.get("status") == "completed" and (value := objective(folder)) is not None:
            print(f"  {folder.name}: {OBJECTIVE} {value:.4g}", file=sys.stderr)
    for folder, state in bad:
        cause = ((state.get("error") or {}).get("cause") or "").splitlines()
        print(f"  {state.get('status')}: {folder}: {cause[0] if cause else ''}", file=sys.stderr)
    if _jobs and (left := len(_composed) - len(_jobs)) > 0:
        print(f"  not started: {left} job{'s' if left > 1 else ''}", file=sys.stderr)
    return 1 if any(state.get("status") != "refused" for _, state in bad) else 2 if bad else 0
