"""Whether the kernel has killed processes for want of memory, which a SIGKILL does not say."""

from __future__ import annotations

import re
from pathlib import Path

from components.cluster.cgroup import memory_folders

COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def oom_kills(root: Path = Path("/")) -> int:
    """So many processes the kernel has killed so far in this process's cgroup, and on the machine.

    The sum of all counters that can be read: what tells is that it grows. Always 0 where the kernel
    counts nothing.

    Source: `memory.events` and `memory.oom_control` in the kernel's documentation of cgroup v2 and
    v1; `oom_kill` in /proc/vmstat.
    """
    paths = {root / "proc/vmstat"}
    for folder, second in memory_folders(root):
        paths.add(folder / ("memory.events" if second else "memory.oom_control"))
    return sum(int(count) for path in paths for count in COUNT.findall(_read(path)))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
