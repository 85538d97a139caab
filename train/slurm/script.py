"""The batch script of a submission, and the words that hand it to sbatch.

The script is the same whatever the jobs are: no value of a config is in it. Which job an element of
the array is, it finds by its index in a file beside it.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from train.slurm.options import SlurmOptions

NAME = "job.sh"

LOGS = {True: "%a.log", False: "0.log"}
"""What the script and the controllers say: by whether there is an array, in Slurm's patterns."""


def script_text(options: SlurmOptions, place: Path) -> str:
    """The batch script.

    Args:
        place: the folder of the submission, absolute.
    """
    word = [sys.executable, "-m", "train.slurm.batch", str(place)]
    lines = [
        "#!/bin/bash",
        "# jobs.json, beside this file, says which run this is: by the index in the array.",
        *options.setup,
        f"exec {shlex.join(word)}",
    ]
    return "\n".join(lines) + "\n"


def sbatch_words(
    options: SlurmOptions, place: Path, name: str, nodes: int, jobs: int | None
) -> list[str]:
    """The command that submits the script, as words that no shell reads.

    Args:
        place: the folder of the submission, absolute.
        name: of the job.
        nodes: of each job.
        jobs: elements of the array; None for a single job.
    """
    flags: dict[str, str | int | bool | None] = {
        "job-name": re.sub(r"[^\w.-]+", "-", name),
        "nodes": nodes,
        "ntasks-per-node": 1,
        "array": None if jobs is None else f"0-{jobs - 1}{_at_once(options)}",
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "time": options.time,
        "cpus-per-task": options.cpus,
        "mem": options.memory,
        "gpus-per-node": options.gpus,
        # To the batch script alone: libraries of the ranks may die of it.
        "signal": f"B:USR1@{options.grace_s}" if options.grace_s else None,
        "requeue" if options.requeue else "no-requeue": True,
        "output": f"{_literal(place)}/{LOGS[jobs is not None]}",
        "open-mode": "append",
        "chdir": str(Path.cwd()),
        **options.sbatch,
    }
    words = [
        f"--{flag}" if value is True else f"--{flag}={value}"
        for flag, value in flags.items()
        if value is not None and value is not False
    ]
    return ["sbatch", "--parsable", *words, str(place / NAME)]


def _at_once(options: SlurmOptions) -> str:
    return "" if options.parallel is None else f"%{options.parallel}"


def _literal(place: Path) -> str:
    """A path in which Slurm replaces nothing."""
    return str(place).replace("%", "%%")
