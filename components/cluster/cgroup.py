"""Where the kernel keeps what it counts, and allows, of this process's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def memory_folders(root: Path = Path("/")) -> Iterator[tuple[Path, bool]]:
    """Folders of this process's cgroup for memory, and whether each is of version 2.

    Source: the kernel's documentation of cgroup v2 and v1.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        # A container may see its own cgroup as the root of what is mounted.
        for place in (own.lstrip("/"), ""):
            if controllers == "":
                yield root / "sys/fs/cgroup" / place, True
            elif "memory" in controllers.split(","):
                yield root / "sys/fs/cgroup/memory" / place, False
