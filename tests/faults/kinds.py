"""The faults of the table: how a run is prepared for each, and how it is brought about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.words import FAULTY
from tests.processes import Family

PACED = (*FAULTY, "steps=40", "checkpoint.every_steps=5", "cluster.timeout_s=10")
"""Forty steps with a checkpoint each fifth; a step takes a while, nearly all of it in a forward."""

PACE = "+model.pace_s=0.1"

AT = 7
"""The step after which things happen: two beyond a checkpoint."""


@dataclass(frozen=True)
class Fault:
    """A fault of the table.

    Attributes:
        words: of the command, given the folder where it is typed.
        act: brings the fault about in a run that has taken `AT` steps.
        alone: whether it ends more than a job of a sweep.
        once: a file that the fault leaves, and where there is one it does not happen.
        hosts: on how many hosts the run is.
        small_disk: whether it writes to a disk that can be filled.
        again: further words for a run that is gone on with. (A sweep knows its jobs by all words.)
    """

    name: str
    words: Callable[[Path], tuple[str, ...]]
    act: Callable[[Family], None]
    alone: bool = False
    once: str | None = None
    hosts: int = 1
    small_disk: bool = False
    again: tuple[str, ...] = ("+model.pace_s=0",)


def paced(cwd: Path) -> tuple[str, ...]:
    return (*PACED, PACE)


def saving(cwd: Path) -> tuple[str, ...]:
    """The second checkpoint takes its time."""
    keys = ("every_minutes", "keep_last", "keep_best", "best_metric", "best_mode", "background")
    return (
        *PACED,
        PACE,
        "checkpoint._target_=probe_faults.SlowCommit",
        *(f"~checkpoint.{key}" for key in (*keys, "save_weights")),
        "+checkpoint.pace_s=5",
        f"+checkpoint.begun={cwd / 'begun'}",
        "+checkpoint.at_step=10",
    )


def evaluating(cwd: Path) -> tuple[str, ...]:
    """An evaluation after the 8th step takes its time."""
    keys = ("kind", "train_samples", "val_samples", "vocab_size", "seq_len", "masked_fraction")
    return (
        *PACED,
        "+model.pace_s=0",
        "eval_every=8",
        "data._target_=probe_faults.SlowEvaluation",
        *(f"~data.{key}" for key in (*keys, "seed", "epoch_end", "shuffle", "num_workers")),
        "+data.pace_s=0.05",
        f"+data.begun={cwd / 'begun'}",
    )


def kill_rank(command: Family) -> None:
    command.until(lambda: command.training(AT))
    command.ranks()[1].kill()


def kill_waiting(command: Family) -> None:
    """Rank 0, which waits for rank 1 that is stopped."""
    command.until(lambda: command.training(AT))
    ranks = command.ranks()
    ranks[1].suspend()
    command.until(lambda: ranks[0].cpu_percent(0.5) < 5.0)
    ranks[0].kill()


def kill_begun(command: Family) -> None:
    command.until((command.cwd / "begun").exists)
    command.ranks()[1].kill()


def stop_rank(command: Family) -> None:
    command.until(lambda: command.training(AT))
    command.ranks()[1].suspend()


def kill_controller(command: Family) -> None:
    command.until(lambda: command.training(AT))
    command.first.kill()


def kill_server(command: Family) -> None:
    command.until(lambda: command.training(AT))
    server = {rank.ppid() for rank in command.ranks().values()}
    assert len(server) == 1
    psutil.Process(server.pop()).kill()


def train_on(command: Family) -> None:
    command.until(lambda: command.training(AT))


FAULTS = (
    Fault("SIGKILL of a rank in its forward", paced, kill_rank),
    Fault("SIGKILL of a rank in a collective", paced, kill_waiting),
    Fault("SIGKILL of a rank in a save", saving, kill_begun, once="begun"),
    Fault("SIGKILL of a rank in an evaluation", evaluating, kill_begun, once="begun"),
    Fault("SIGSTOP of a rank", paced, stop_rank),
    Fault("SIGKILL of the controller", paced, kill_controller, alone=True),
    Fault("SIGKILL of the fork server", paced, kill_server, alone=True),
    Fault("a cut network, two nodes", paced, train_on, alone=True, hosts=2),
    Fault("a full disk", paced, train_on, alone=True, small_disk=True),
)
