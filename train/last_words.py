"""What ranks have left of their ends, and what is made of those that have left nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from components.cluster.gang import Exit
from train.failure import Failure
from train.files import read_json

NCCL_TIMEOUT = "Watchdog caught collective operation timeout"
"""What torch's NCCL backend writes into a rank's log before it aborts the process."""

GLOO_MISMATCH = "Is there a distributed collective mismatch in your code?"
"""What gloo writes before it aborts a process that got a message of another size."""

TAIL_BYTES = 64 * 1024


def told(folder: Path, ranks: Collection[int], exits: Sequence[Exit]) -> list[Failure]:
    """The failures of `ranks`, those that ended badly without a word included.

    A rank that said what happened is believed, whatever its exit code.
    """
    paths = [folder / "logs" / f"rank-{rank}.failure.json" for rank in ranks]
    failures = [Failure(**content) for content in map(read_json, paths) if content]
    spoke = {failure.rank for failure in failures}
    return failures + [_silent(end, folder) for end in exits if end.rank not in spoke]


def suspects(failures: Sequence[Failure], ranks: Collection[int]) -> list[Failure]:
    """Those of `ranks` that said nothing, where all who spoke are victims."""
    if not all(failure.victim for failure in failures):
        return []
    silent = sorted({*ranks} - {failure.rank for failure in failures})
    return [
        Failure(
            rank,
            "killed",
            "said nothing and does not answer: it was killed, or it hangs; its last words are "
            f"in logs/rank-{rank}.log",
            time.time(),
        )
        for rank in silent
    ]


def _silent(end: Exit, folder: Path) -> Failure:
    log = f"its last words are in logs/rank-{end.rank}.log"
    last = _tail(folder, end.rank) if end.code == -signal.SIGABRT else ""
    if GLOO_MISMATCH in last:
        cause = (
            "killed by SIGABRT: ranks have called different collectives, and gloo got a message of "
            "another size than it waited for. Look for an error that one rank has swallowed, or a "
            f"branch that it takes alone; {log}"
        )
        return Failure(end.rank, "killed", cause, end.seen)
    if NCCL_TIMEOUT in last:
        # NCCL ends a rank that has waited too long from a thread, past all that could be raised.
        cause = f"ended by NCCL, which timed out in a collective; {log}"
        return Failure(end.rank, "collective", cause, end.seen)
    if end.code == -signal.SIGKILL and end.oom_kills:
        cause = (
            "killed by the kernel for want of memory: the machine's, or what its job may have of "
            f"it, not a GPU's. A smaller micro_batch_size, model.checkpointing=full, or a strategy "
            f"that spreads the model takes less; {log}"
        )
        return Failure(end.rank, "out_of_memory", cause, end.seen)
    if end.code < 0:
        name = signal.Signals(-end.code).name
        return Failure(end.rank, "killed", f"killed by {name}; {log}", end.seen)
    early = " before the end" if end.code == 0 else ""
    # What `multiprocessing` says of a process of which its server can tell nothing any more.
    server = ", as ranks do when the process that forks them is killed" if end.code == 255 else ""
    cause = f"exited with code {end.code}{early}{server}; {log}"
    return Failure(end.rank, "killed", cause, end.seen)


def _tail(folder: Path, rank: int) -> str:
    """The end of a rank's log."""
    try:
        with (folder / "logs" / f"rank-{rank}.log").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
