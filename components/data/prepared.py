"""One-time preparation in a cache that several processes and runs share."""

from __future__ import annotations

import fcntl
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import ConfigError

log = logging.getLogger(__name__)

MARK = ".complete"


def prepare_once(directory: Path, build: Callable[[Path], None]) -> Path:
    """`directory`, filled by `build` exactly once per file system.

    Call it in every process: the first to come builds, the others wait, as
    long as it takes. A directory without its mark, left by a process that was
    killed, is built again. When `build` raises, the directory is not made, and
    every process tries for itself and sees the error.

    Args:
        directory: its name should be a function of all that its content depends on.
        build: called with an empty directory to fill, beside the final one.

    Raises:
        ConfigError: when the cache cannot be written.
    """
    if (directory / MARK).exists():
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        lock = (directory.parent / f".{directory.name}.lock").open("w")
    except OSError as error:
        raise ConfigError(
            f"data.cache_dir: {directory.parent} cannot be written ({error.strerror}). "
            "Set data.cache_dir to a folder that can."
        ) from error
    with lock, _locked(lock.fileno(), directory):
        if not (directory / MARK).exists():
            _build(directory, build)
    return directory


def _build(directory: Path, build: Callable[[Path], None]) -> None:
    """Fill a directory under a name that nobody reads, rename it, and mark it last."""
    unfinished = directory.parent / f".{directory.name}.unfinished"
    for left_over in (unfinished, directory):
        if left_over.exists():
            shutil.rmtree(left_over)
    unfinished.mkdir()
    try:
        build(unfinished)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(directory)
    (directory / MARK).touch()


@contextmanager
def _locked(fd: int, directory: Path) -> Iterator[None]:
    # lockf, not flock: the lock is this process's own. It ends with it even when a child lives
    # on with the open file, and it holds between the nodes of a network file system.
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        log.info("waiting for another process that prepares %s", directory)
        fcntl.lockf(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)
