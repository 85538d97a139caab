"""The least time that a step can take: each operation by its slower one of arithmetic and memory.

A roofline (Williams et al., 2009, https://doi.org/10.1145/1498765.1498785): real kernels reach some
part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from components.device import Device
from components.precision import Precision
from train.plan.trace import Event


def rate(device: Device, dtype: str, precision: Precision) -> float | None:
    """FLOP/s of matrix products of a type; None where the device has no such units."""
    if dtype == "float32":
        return (
            device.flops.get("tf32", device.flops["float32"])
            if precision.tf32
            else (device.flops["float32"])
        )
    if precision.mixed and dtype in ("bfloat16", "float16"):
        # Both half types are traced as one.
        return device.flops.get(precision.compute_dtype)
    return device.flops["float32"]


def compute_seconds(events: Sequence[Event], device: Device, precision: Precision) -> float | None:
    """Seconds of one micro-batch's forward and backward; None where a type cannot be computed."""
    total = 0.0
    rates: dict[str, float | None] = {}
    for kind, dtype, size, flop in events:
        if kind != "op":
            continue
        if dtype not in rates:
            rates[dtype] = rate(device, dtype, precision)
        speed = rates[dtype]
        if flop and speed is None:
            return None
        moved = size / device.memory_bytes_per_s
        total += max(flop / speed if speed else 0.0, moved, device.operation_s)
    return total / device.attained.get(precision.compute_dtype, 1.0)


def model_flop(events: Sequence[Event]) -> float:
    """FLOP of a forward and backward without what is computed twice: three times the forward."""
    total = 0.0
    for kind, _, _, flop in events:
        if kind == "loss":
            break
        total += flop if kind == "op" else 0.0
    return 3 * total


def update_seconds(updated: int, state: float, device: Device) -> float:
    """Seconds of the optimizer: weights and state are read and written, gradients read.

    Args:
        updated: elements.
        state: bytes of optimizer state of each.
    """
    return updated * (2 * (4 + state) + 4) / device.memory_bytes_per_s
