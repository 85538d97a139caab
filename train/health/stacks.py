"""Python stacks of a rank, taken from outside by a signal, whatever the rank does."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

SIGNAL = signal.SIGRTMIN + 3
"""One that neither schedulers nor libraries send, and that no handler of ours takes."""

ANSWER_S = 2.0
"""How long ranks have to write their stacks: they do so at once, or not at all."""

FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$')

WAITING = ("/torch/distributed/", "/torch/autograd/graph.py", "/deepspeed/comm/")
"""Where a rank that waits for others has its innermost frame; in a backward, too, it may wait."""

LIBRARIES = ("/site-packages/", f"/lib/python{sys.version_info[0]}.{sys.version_info[1]}/")

_file: TextIO | None = None


def stacks_path(folder: Path, rank: int) -> Path:
    """Where a rank's stacks go."""
    return folder / "logs" / f"rank-{rank}.stacks.txt"


def answer(folder: Path, rank: int) -> None:
    """From now on `SIGNAL` writes this process's stacks, of all threads, into the run's folder.

    In C, at once: code that never comes back to the interpreter does not keep it from that.
    """
    global _file
    _file = stacks_path(folder, rank).open("w")
    faulthandler.register(SIGNAL, file=_file, all_threads=True)


def clear(folder: Path, rank: int) -> None:
    """Take a rank's file away if nothing has been written."""
    path = stacks_path(folder, rank)
    if path.exists() and not path.stat().st_size:
        path.unlink(missing_ok=True)


def ask(pids: dict[Path, int]) -> None:
    """Have processes that `answer` write their stacks, and wait until they have.

    Args:
        pids: processes by the file that each writes. One that is stopped does not answer.
    """
    before = _sizes(pids)
    for pid in pids.values():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, SIGNAL)
    deadline = time.monotonic() + ANSWER_S
    last = before
    while time.monotonic() < deadline:
        time.sleep(0.05)
        now = _sizes(pids)
        if now == last and all(now[path] > before[path] for path in pids):
            return
        last = now


def _sizes(paths: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_size if path.exists() else 0 for path in paths}


def main_thread(text: str) -> list[tuple[str, int, str]]:
    """The main thread's frames (file, line, function) of the last stacks, the innermost first.

    The main thread is the oldest, and written last.
    """
    block: list[tuple[str, int, str]] = []
    for line in text.splitlines():
        if line.startswith(("Thread ", "Current thread ", "Stack ")):
            block = []
        elif frame := FRAME.match(line):
            block.append((frame["file"], int(frame["line"]), frame["name"]))
    return block


def innermost(frames: list[tuple[str, int, str]]) -> tuple[str, bool]:
    """Where a rank is by its own code, in words, and whether it waits for others there.

    Args:
        frames: as `main_thread` gives them; of none nothing follows.
    """
    if not frames:
        return "", False
    waits = any(place in frames[0][0] for place in WAITING)
    own = [frame for frame in frames if not any(place in frame[0] for place in LIBRARIES)]
    file, line, name = (own or frames)[0]
    return f"{name} ({'/'.join(Path(file).parts[-2:])}:{line})", waits
