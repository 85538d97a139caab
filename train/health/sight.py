"""What can be seen of a rank from outside: its place, its process, its stacks, its last words."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components.cluster.place import PHASES, Phase, Seen, read_place
from train.failure import Failure, timed_out
from train.health.stacks import ask, innermost, main_thread, stacks_path

PROCESS = {
    "R": "computing",
    "D": "in the kernel's hands",
    "T": "stopped",
    "t": "stopped",
    "Z": "gone",
    "": "gone",
}
"""By the letter in /proc/PID/stat. One that is asleep waits for something, like most that do."""


@dataclass(frozen=True)
class Sight:
    """One rank, when something was wrong.

    Attributes:
        step: steps taken.
        age_s: how long it has been in its phase.
        process: `computing`, `stopped`, `in the kernel's hands`, `gone`, or nothing that tells.
        frame: the innermost frame of code that is no library's; empty where that is not known.
        waits: whether the stack ends where ranks wait for each other.
        spoke: whether it has told of its end since.
        timed_out: whether that was that it had waited too long.
    """

    rank: int
    step: int
    phase: Phase
    age_s: float
    pid: int
    process: str = ""
    frame: str = ""
    waits: bool = False
    spoke: bool = False
    timed_out: bool = False

    @property
    def come(self) -> tuple[int, int]:
        """How far it has come; what is lower comes earlier."""
        return self.step, PHASES.index(self.phase)

    @property
    def stopped(self) -> bool:
        """Whether SIGSTOP or a debugger holds it."""
        return self.process == "stopped"


def place_path(folder: Path, rank: int) -> Path:
    """Where a rank keeps its place while it runs."""
    return folder / "logs" / f"rank-{rank}.place"


def places(folder: Path, ranks: Collection[int]) -> dict[int, Seen]:
    """The places of ranks of this machine that have one."""
    found = {rank: read_place(place_path(folder, rank)) for rank in ranks}
    return {rank: seen for rank, seen in found.items() if seen is not None}


def look(folder: Path, ranks: Collection[int]) -> list[Sight]:
    """What there is to see of ranks of this machine. Takes no stacks."""
    now = time.monotonic()
    return [
        Sight(
            rank=rank,
            step=seen.step,
            phase=seen.phase,
            age_s=now - seen.since,
            pid=seen.pid,
            process=PROCESS.get(_letter(seen.pid), ""),
        )
        for rank, seen in places(folder, ranks).items()
    ]


def with_stacks(folder: Path, sights: Sequence[Sight]) -> list[Sight]:
    """The same with their stacks, which those that can write into the run's folder now."""
    able = [sight for sight in sights if sight.process not in ("stopped", "gone")]
    if threading.current_thread() is threading.main_thread():
        able = [sight for sight in able if sight.pid != os.getpid()]  # it is here, and no news
    ask({stacks_path(folder, sight.rank): sight.pid for sight in able})
    return [_with_stack(folder, sight) for sight in sights]


def _with_stack(folder: Path, sight: Sight) -> Sight:
    try:
        text = stacks_path(folder, sight.rank).read_text()
    except FileNotFoundError:
        return sight
    frame, waits = innermost(main_thread(text))
    return replace(sight, frame=frame, waits=waits)


def with_words(sights: Sequence[Sight], failures: Sequence[Failure]) -> list[Sight]:
    """The same with what the ranks have told of their ends."""
    late = {failure.rank for failure in failures if timed_out(failure)}
    spoke = {failure.rank for failure in failures}
    return [
        replace(sight, spoke=sight.rank in spoke, timed_out=sight.rank in late) for sight in sights
    ]


def _letter(pid: int) -> str:
    """A process's state; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""
