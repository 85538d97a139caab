"""One process leads a run at a time: who it is, and that it is still there.

The lock is the kernel's and goes with the process, however that ends. Where a
file system knows no locks, nothing keeps two processes apart.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import json
import os
import socket
import sys
from pathlib import Path

from components.errors import ConfigError

FILE = Path("logs") / ".lock"

_held: dict[Path, int] = {}
"""File descriptors of the locks that this process holds, by folder."""


def take(folder: Path, of: str = "run") -> None:
    """Take the lock of a run's folder, or of a sweep's, unless this process holds it.

    Args:
        of: `run` or `sweep`.

    Raises:
        ConfigError: when another process has it.
    """
    if folder.resolve() in _held:
        return
    fd = _acquire(folder)
    if fd is None:
        key = "resume" if of == "run" else f"{of}.resume"
        raise ConfigError(
            f"{key}={folder}: the {of} is still going ({_owner(folder)}). Wait for its end, or end "
            "that process; its folder is never written by two."
        )
    os.ftruncate(fd, 0)
    os.write(fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
    _held[folder.resolve()] = fd


def release(folder: Path) -> None:
    """Let the folder go, and leave no file, unless another process leads the run."""
    fd = _held.pop(folder.resolve(), None)
    if fd is None and (folder / FILE).exists():
        fd = _acquire(folder)  # the process that led the run is gone
    if fd is not None:
        # In this order: whoever opened the file before finds, with the lock, that it is gone.
        (folder / FILE).unlink(missing_ok=True)
        os.close(fd)


def _acquire(folder: Path) -> int | None:
    """A descriptor that holds the lock; None when somebody else has it."""
    path = folder / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)  # closed by exec
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                os.close(fd)
                raise
            print(f"{path}: this file system has no locks ({error.strerror})", file=sys.stderr)
        if _is(fd, path):
            return fd
        os.close(fd)  # its last owner has just removed it


def _is(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _owner(folder: Path) -> str:
    try:
        owner = json.loads((folder / FILE).read_text())
        return f"process {owner['pid']} on {owner['host']}"
    except (OSError, ValueError):
        return "its process has not said who it is"


def _forget() -> None:
    """In a forked child: its copies of the descriptors would hold the locks beyond the parent."""
    for fd in _held.values():
        os.close(fd)
    _held.clear()


def _release_all() -> None:
    """A process that was refused after it had taken a folder leaves no trace in it."""
    for folder in [*_held]:
        release(folder)


os.register_at_fork(after_in_child=_forget)
atexit.register(_release_all)
