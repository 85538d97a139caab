"""Whether a process still leads a run, asked without leaving a trace in its folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from train import lock


def led(folder: Path) -> bool:
    """Whether a process holds the lock of a run's folder.

    True also where that cannot be asked: on a file system without locks, or for somebody whose
    lock may not be read. A run is not called crashed on a guess.
    """
    try:
        fd = os.open(folder / lock.FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Shared, and let go at once: two readers do not take each other for the leader.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
