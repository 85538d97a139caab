"""How fast a device can be: the denominator of MFU."""

from __future__ import annotations

import time
from typing import Literal

import torch

PEAK_TFLOPS: dict[str, dict[str, float]] = {
    # Dense tensor-core figures of the makers' data sheets; fp32 is the plain (non-TF32) rate.
    "H200": {"float32": 67, "bfloat16": 989, "float16": 989},
    "H100": {"float32": 67, "bfloat16": 989, "float16": 989},
    "A100": {"float32": 19.5, "bfloat16": 312, "float16": 312},
    "L40S": {"float32": 91.6, "bfloat16": 362, "float16": 362},
    "V100": {"float32": 15.7, "float16": 125},
}
TF32_TFLOPS: dict[str, float] = {"H200": 495, "H100": 495, "A100": 156, "L40S": 183}


def peak_flops(
    setting: float | Literal["auto", "measure"] | None,
    device: torch.device,
    dtype: torch.dtype,
    tf32: bool,
) -> float | None:
    """FLOP/s that one device could reach in `dtype`; None when nobody knows."""
    if setting == "measure":
        return measured(device, dtype)
    if setting != "auto":
        return setting
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    for key, rates in PEAK_TFLOPS.items():
        if key in name:
            tflops = rates.get(str(dtype).removeprefix("torch."))
            if tf32 and dtype is torch.float32:
                tflops = TF32_TFLOPS.get(key, tflops)
            return None if tflops is None else tflops * 1e12
    return None


def measured(device: torch.device, dtype: torch.dtype, size: int = 1024) -> float:
    """FLOP/s of the best of five `size` cubed matrix products."""
    a = torch.randn(size, size, device=device).to(dtype)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        a @ a
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
