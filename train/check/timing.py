"""Seconds that something takes on a device."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds_per_call(call: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    """Call so often in a row, until the device is done with it all; seconds of one call."""
    finish(device)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    finish(device)
    return (time.perf_counter() - start) / calls


def finish(device: torch.device) -> None:
    """Wait until a device has done what it was given; a CPU has done it already."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
