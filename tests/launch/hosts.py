"""Two hosts on one machine: network namespaces with a cable between them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESSES = ("10.77.0.1", "10.77.0.2")


def ip(*words: str) -> bool:
    """Whether an `ip` command did as told."""
    return subprocess.run(["ip", *words], capture_output=True).returncode == 0


def _possible() -> bool:
    if shutil.which("ip") is None:
        return False
    name = f"shardlab-try-{os.getpid()}"
    made = ip("netns", "add", name)
    if made:
        ip("netns", "del", name)
    return made


NAMESPACES = _possible()


@contextmanager
def two_hosts(folder: Path) -> Iterator[tuple[str, str]]:
    """The names of two namespaces; 10.77.0.1 and 10.77.0.2 reach each other, and nothing else."""
    first, second = (f"shardlab-{os.getpid()}-{number}" for number in (1, 2))
    try:
        for name in (first, second):
            assert ip("netns", "add", name)
            assert ip("-n", name, "link", "set", "lo", "up")
        assert ip(
            "-n", first, "link", "add", "cable", "type", "veth", "peer", "cable", "netns", second
        )
        for name, address in zip((first, second), ADDRESSES, strict=True):
            assert ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            assert ip("-n", name, "link", "set", "cable", "up")
        yield first, second
    finally:
        for name in (first, second):
            ip("netns", "del", name)
