"""What gloo's threads hold on to when a collective is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.distributed import Work

PAUSE_S = 0.001
AT_REST = 3
"""As often in a row no other thread may have been found at work."""


@contextmanager
def letting_go() -> Iterator[None]:
    """Inside, whoever has waited for a collective waits until its thread has let go of the tensors.

    That thread says that the collective is over first, and drops its references then, for which it
    needs the interpreter's lock: a moment later, or much later where a core is missing. How long
    is chance, and what is counted meanwhile would be too.
    """
    wait = Work.wait

    def waited(work: Any, *args: Any) -> Any:
        result = wait(work, *args)
        _rest()
        return result

    Work.wait = waited
    try:
        yield
    finally:
        Work.wait = wait


def _rest() -> None:
    """Return when all other threads of this process wait for something, this one asleep."""
    seen = 0
    while seen < AT_REST:
        time.sleep(PAUSE_S)
        seen = seen + 1 if not _at_work() else 0


def _at_work() -> bool:
    own = str(threading.get_native_id())
    for task in Path("/proc/self/task").iterdir():
        if task.name == own:
            continue
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has ended meanwhile
            continue
        if state == "R":
            return True
    return False
