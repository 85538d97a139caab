"""Where a rank is in its training, in memory that its controller reads even when the rank is stuck.

A rank that waits in a collective, hangs or is stopped by SIGSTOP says nothing any more. So it
writes beforehand what it begins to do: 40 bytes of a file that is mapped into its memory.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Phase = Literal[
    "start",
    "comparison of replicas",
    "evaluation",
    "agreement",
    "save",
    "data",
    "forward-backward",
    "optimizer",
    "end",
]
"""What a rank does, in the order in which it does it with the same number of steps taken."""

PHASES: tuple[Phase, ...] = get_args(Phase)
CODES = {phase: code for code, phase in enumerate(PHASES)}
IN_STEP = frozenset({"data", "forward-backward", "optimizer"})
"""Phases of the step that comes next, while the others follow one that has been taken."""

LAYOUT = struct.Struct("=qqqdq")
"""Steps taken, phase, whether a step has been taken in this attempt, since when, process."""


class Place:
    """This rank's place. Every phase that is entered counts as coming on.

    Args:
        path: of the file that others read; None keeps the place to this process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._memory: mmap.mmap | bytearray = bytearray(LAYOUT.size)
        self._first: int | None = None
        self._pid = os.getpid()
        if path is not None:
            path.unlink(missing_ok=True)
            # Written before it is mapped: memory over a hole may fail on a full disk, fatally.
            path.write_bytes(LAYOUT.pack(0, CODES["start"], 0, time.monotonic(), self._pid))
            with path.open("r+b") as file:
                self._memory = mmap.mmap(file.fileno(), LAYOUT.size)

    def enter(self, phase: Phase, step: int) -> None:
        """Begin something.

        Args:
            step: steps taken so far.
        """
        if self._first is None and phase in IN_STEP:
            self._first = step
        warm = self._first is not None and step > self._first
        LAYOUT.pack_into(self._memory, 0, step, CODES[phase], warm, time.monotonic(), self._pid)

    def remove(self) -> None:
        """Take the file away, when there is nothing left to tell."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Seen:
    """A place as others read it.

    Attributes:
        step: steps taken.
        warm: whether one of them was taken in this attempt.
        since: when the phase was entered, by this machine's monotonic clock, seconds.
        pid: the rank's process.
    """

    step: int
    phase: Phase
    warm: bool
    since: float
    pid: int


def read_place(path: Path) -> Seen | None:
    """The place in a file of this machine; None as long as there is none."""
    try:
        content, again = path.read_bytes(), b""
        while content != again:  # the rank may be writing
            content, again = path.read_bytes(), content
    except FileNotFoundError:
        return None
    if len(content) != LAYOUT.size:
        return None
    step, code, warm, since, pid = LAYOUT.unpack(content)
    return Seen(step, PHASES[code], bool(warm), since, pid)
