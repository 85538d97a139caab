"""What a submission says, and how the command that follows it leaves it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from pathlib import Path

from train.slurm.submission import Submission

FOLLOW = "sweep.resume={} hydra.launcher.wait=true"


def submitted(one: Submission) -> None:
    """A line for a submission."""
    jobs = f"array {one.job}, {len(one.runs)} elements," if one.array else f"job {one.job}"
    nodes = f"{one.nodes} node{'s' if one.nodes > 1 else ''}"
    print(f"submitted   {jobs} on {nodes}{' each' if one.array else ''}: {one.place}", flush=True)


def left(submissions: Collection[Submission], sweep: Path | None, whole: bool = False) -> None:
    """How to follow jobs, and how to end them.

    Args:
        sweep: the folder of theirs; None for a single run.
        whole: whether the command has to be given again whole.
    """
    jobs = [str(one.job) for one in submissions]
    lines = [f"to look:    squeue --jobs={','.join(jobs)}"]
    if sweep is not None:
        first = "the same command with" if whole else "python -m train"
        lines.append(f"to follow:  {first} {FOLLOW.format(shlex.quote(str(sweep)))}")
    else:
        log = next(iter(submissions)).log(0)
        lines.append(f"to follow:  tail -F {shlex.quote(str(log))}")
    lines.append(f"to end:     scancel {' '.join(jobs)}")
    print("\n".join(lines), file=sys.stderr, flush=True)
