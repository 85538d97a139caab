"""What to say when a micro-batch did not fit into memory."""

from __future__ import annotations

from pathlib import Path

import torch
from omegaconf import DictConfig

from components.cluster.device_memory import kernel_bytes
from train.blocks import checkpointing_of
from train.loop import Progress


def advice(config: DictConfig, progress: Progress) -> str:
    """Where it happened, how full the memory was, and which settings to try."""
    lines = [""]
    if progress.batch_shape is not None:
        shape = "x".join(map(str, progress.batch_shape))
        lines.append(f"It happened in step {progress.step + 1}, on micro-batches of {shape}.")
    lines.append(_memory())
    lines.append(f"Try {', '.join(_cures(config))}.")
    return "\n".join(lines)


def _cures(config: DictConfig) -> list[str]:
    micro, accumulation = config.micro_batch_size, config.accumulation
    cures = []
    if micro % 2 == 0:
        cures.append(
            f"micro_batch_size={micro // 2} accumulation={accumulation * 2} (the same global batch)"
        )
    elif micro > 1:
        cures.append(f"micro_batch_size=1 accumulation={accumulation * micro}")
    if checkpointing_of(config) == "none":
        cures.append("model.checkpointing=full")
    return [*cures, "or a strategy that spreads the model: parallel=fsdp, parallel=zero3"]


def _memory() -> str:
    """How full the memory of this rank's device is, in GB."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        free, total = torch.cuda.mem_get_info()
        held, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        return (
            f"GPU memory: {held / 1e9:.2f} GB in tensors (peak {peak / 1e9:.2f}), "
            f"{free / 1e9:.2f} of {total / 1e9:.2f} GB free."
        )
    own = _proc("/proc/self/status", "VmRSS"), _proc("/proc/self/status", "VmHWM")
    machine = _proc("/proc/meminfo", "MemAvailable"), _proc("/proc/meminfo", "MemTotal")
    return (
        f"Memory: {own[0]:.2f} GB held by this rank (peak {own[1]:.2f}), "
        f"{machine[0]:.2f} of {machine[1]:.2f} GB free on the machine."
    )


def _proc(path: str, key: str) -> float:
    """One value of a Linux status file in GB; nan elsewhere."""
    size = kernel_bytes(Path(path), key)
    return float("nan") if size is None else size / 1e9
