"""What went wrong on a rank, and which rank's failure came first."""

from __future__ import annotations

import signal
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from components.cluster.gang import Exit
from components.errors import ConfigError
from train.files import read_json, write_json

Kind = Literal["refused", "error", "out_of_memory", "killed", "collective", "stopped"]

GUILT: dict[str, int] = {
    "refused": 0,
    "error": 1,
    "out_of_memory": 1,
    "killed": 2,
    # A rank that lost its peers, or was told to end, is a victim of another's failure.
    "collective": 3,
    "stopped": 4,
}
"""Which kind of failure explains the others: the lowest comes first, then the earliest."""


@dataclass(frozen=True)
class Failure:
    """One rank's failure.

    Attributes:
        cause: one line or paragraph for the user.
        traceback_file: relative to the run's folder; None when the process left none.
        step: steps that this rank had taken.
    """

    rank: int
    kind: Kind
    cause: str
    time: float
    step: int = 0
    traceback_file: str | None = None


def kind_of(error: BaseException) -> Kind:
    """What sort of failure an exception is."""
    import torch
    import torch.distributed as dist

    if isinstance(error, ConfigError):
        return "refused"
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return "out_of_memory"
    if isinstance(error, dist.DistError) or _from_gloo(error):
        return "collective"
    return "error"


def _from_gloo(error: BaseException) -> bool:
    # gloo raises plain RuntimeErrors; its source paths and words are all that marks them.
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "gloo" in text or "Connection closed by peer" in text or "Connection reset by peer" in text
    )


def record(folder: Path, rank: int, error: BaseException, step: int, advice: str = "") -> Failure:
    """Write a rank's failure into the run's folder, with its traceback."""
    kind = kind_of(error)
    cause = str(error) if kind == "refused" else f"{type(error).__name__}: {error}"
    traceback_file = None
    if kind != "refused":
        traceback_file = f"logs/rank-{rank}.traceback.txt"
        (folder / traceback_file).write_text("".join(traceback.format_exception(error)))
    failure = Failure(rank, kind, cause + advice, time.time(), step, traceback_file)
    write_json(folder / "logs" / f"rank-{rank}.failure.json", asdict(failure))
    return failure


def first(folder: Path, exits: list[Exit]) -> Failure:
    """The failure that explains the end of a gang.

    Ranks that said what happened are believed; one that ended without a word was killed.
    """
    failures = [
        Failure(**read_json(path)) for path in sorted(folder.glob("logs/rank-*.failure.json"))
    ]
    told = {failure.rank for failure in failures}
    failures += [_silent(end) for end in exits if end.rank not in told]
    return min(failures, key=lambda failure: (GUILT[failure.kind], failure.time, failure.rank))


def _silent(end: Exit) -> Failure:
    log = f"its last words are in logs/rank-{end.rank}.log"
    if end.code == -signal.SIGTERM:
        return Failure(end.rank, "stopped", f"told to end; {log}", end.seen)
    if end.code < 0:
        name = signal.Signals(-end.code).name
        hint = " (out of memory? the kernel kills so)" if name == "SIGKILL" else ""
        return Failure(end.rank, "killed", f"killed by {name}{hint}; {log}", end.seen)
    return Failure(end.rank, "killed", f"exited with code {end.code}; {log}", end.seen)
