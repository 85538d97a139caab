"""How much memory one rank has on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from components.cluster.cgroup import memory_folders


def rank_memory(device: str, local_world_size: int) -> int:
    """Bytes of one rank's device: of the smallest GPU, or a CPU rank's share of the machine.

    Args:
        device: `cuda` or `cpu`.
        local_world_size: ranks on this node.
    """
    if device == "cuda":
        import torch

        gpus = range(torch.cuda.device_count())
        return min(torch.cuda.get_device_properties(gpu).total_memory for gpu in gpus)
    return host_memory() // local_world_size


def host_memory(root: Path = Path("/")) -> int:
    """Bytes that this process and those that it starts may take: the machine's, or the least that
    a cgroup around them allows."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(root)])


def free_host_memory(root: Path = Path("/")) -> int | None:
    """Bytes that could be taken now without swapping; None where the kernel does not say.

    https://docs.kernel.org/filesystems/proc.html (MemAvailable)
    """
    return kernel_bytes(root / "proc/meminfo", "MemAvailable")


def kernel_bytes(file: Path, key: str) -> int | None:
    """One value of a Linux status file, which counts in KiB; None where there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith(f"{key}:")), None)


def _limits(root: Path) -> list[int]:
    """What cgroups allow, this one and those around it."""
    found = []
    for folder, second in memory_folders(root):
        for place in (folder, *folder.parents):
            if place == root / "sys/fs":
                break
            try:
                text = (place / ("memory.max" if second else "memory.limit_in_bytes")).read_text()
            except OSError:
                continue
            if text.strip().isdigit():  # `max` is no limit
                found.append(int(text))
    return found
