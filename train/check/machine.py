"""What a rank runs on: host, device, memory, threads, versions."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch

from components.cluster.device_memory import free_host_memory, kernel_bytes
from components.cluster.ranks import Ranks
from train.provenance import processor, versions

PACKAGES = ("torch", "deepspeed", "numpy")


def describe(ranks: Ranks, node: int) -> dict[str, Any]:
    """This rank's place and means. Before anything is computed, so that free memory is so."""
    device, free, total = _device(ranks.device)
    return {
        "rank": ranks.rank,
        "node": node,
        "host": platform.node(),
        "device": device,
        "memory_free_bytes": free,
        "memory_total_bytes": total,
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "versions": _versions(ranks.device),
    }


def _device(device: torch.device) -> tuple[str, int, int]:
    """Its name, and its memory in bytes: free, and in all."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return torch.cuda.get_device_name(device), free, total
    available, installed = free_host_memory(), kernel_bytes(Path("/proc/meminfo"), "MemTotal")
    assert available is not None
    assert installed is not None
    return processor(), available, installed


def _versions(device: torch.device) -> dict[str, str]:
    installed = versions()
    found = {name: version for name in PACKAGES if (version := installed[name]) is not None}
    found = {"python": platform.python_version(), **found, "kernel": platform.release()}
    if device.type == "cuda":
        found["cuda"] = str(torch.version.cuda)
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found
