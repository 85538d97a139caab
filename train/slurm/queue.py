"""What Slurm's own commands say and do: sbatch, squeue, scancel, scontrol."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from components.errors import ConfigError

ANSWER_S = 60.0
"""How long a command of Slurm's may take."""

OVER = frozenset(
    {
        *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"),
        *("PREEMPTED", "BOOT_FAIL", "DEADLINE", "REVOKED"),
    }
)
"""States after which a job does nothing more, unless Slurm puts it into the queue again at once."""


class Unanswered(Exception):
    """Slurm's controller does not answer, or not so as to be understood."""


@dataclass(frozen=True)
class Standing:
    """How a job stands: Slurm's word for its state, and for why it is in it."""

    state: str
    reason: str

    @property
    def over(self) -> bool:
        """Whether it does nothing more."""
        return self.state in OVER

    @property
    def words(self) -> str:
        """For a reader: `TIMEOUT`, `FAILED (NonZeroExitCode)`."""
        # Why it waited before is no reason of its end.
        plain = self.state == "CANCELLED" or self.reason in ("None", "")
        return self.state if plain else f"{self.state} ({self.reason})"


def check_there() -> None:
    """Refuse to submit where that cannot be done.

    Raises:
        ConfigError: when one of the commands is missing.
    """
    missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
    if missing:
        raise ConfigError(
            f"hydra/launcher=slurm: there is no {', '.join(missing)} on this machine's PATH. "
            "Submit from a login node of the cluster, or leave hydra/launcher out to run here."
        )


def sbatch(words: Sequence[str]) -> str:
    """Submit; the job's id.

    Raises:
        ConfigError: with what Slurm says against it.
    """
    try:
        said = _run(words)
    except Unanswered as error:
        raise ConfigError(
            f"Slurm did not take the job: {error}. Look at hydra.launcher.*; sinfo lists what "
            "partitions there are. Nothing of this submission is in the queue."
        ) from error
    job = said.strip().partition(";")[0]  # behind it a cluster's name, where there are several
    if not job.isdecimal():
        raise ConfigError(f"sbatch has answered {said.strip()!r}, which is no job's number.")
    return job


def standings(jobs: Collection[str]) -> dict[str, Standing]:
    """How jobs stand, by id, elements of arrays as `12_3`; those that Slurm has forgotten left out.

    Args:
        jobs: ids as from `sbatch`.

    Raises:
        Unanswered: when the controller does not tell.
    """
    words = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r"]
    try:
        said = _run([*words, f"--jobs={','.join(sorted(jobs))}"])
    except Unanswered as error:
        if re.search("invalid job id", str(error), re.IGNORECASE):
            return {}
        raise
    rows = [line.strip().split("|", 2) for line in said.splitlines() if line.count("|") >= 2]
    return {name: Standing(state, reason) for name, state, reason in rows}


def cancel_pending(jobs: Collection[str]) -> None:
    """Take what has not begun out of the queue.

    Raises:
        Unanswered: when the controller does not take it.
    """
    _run(["scancel", "--state=PENDING", *sorted(jobs)])


def requeue(job: str) -> None:
    """Put a running job back into the queue; Slurm ends what is left of it.

    Raises:
        Unanswered: when the controller does not do it.
    """
    _run(["scontrol", "requeue", job])


def _run(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            list(words),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
        )
    except subprocess.TimeoutExpired as error:
        raise Unanswered(f"{words[0]} did not answer within {ANSWER_S:g} s") from error
    except OSError as error:
        raise Unanswered(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise Unanswered(f"{words[0]}: {said.removeprefix(f'{words[0]}: ')}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Without the variables of a job in which this process may be: sbatch hands them on."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in ("SLURM_CONF", "SLURM_CLUSTERS")
    }
