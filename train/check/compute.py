"""How fast one rank multiplies matrices and copies memory, while all others do the same."""

from __future__ import annotations

import torch

from components.cluster.control import Control
from train.check.limits import Limits
from train.check.timing import seconds_per_call

CPU_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
GPU_TYPES = {**CPU_TYPES, "fp16": torch.float16}
"""By the words of `precision`. fp16 on a CPU says nothing of what it is chosen for."""

SMALLEST = 128
"""Edge of the first product, which tells how large the one that counts can be."""

SIZING, TRIES = 2, 15
"""Tries of a product that only tells how long it takes, and of what counts: the best of them."""


def matmul_rates(control: Control, limits: Limits) -> dict[str, float]:
    """FLOP/s of square matrix products by type: 2 n^3 over the shortest of `TRIES`. Collective.

    The edge n is the same on all ranks: the first at which the slowest rank takes long enough.
    """
    types = GPU_TYPES if control.ranks.device.type == "cuda" else CPU_TYPES
    return {name: _rate(control, dtype, limits) for name, dtype in types.items()}


def _rate(control: Control, dtype: torch.dtype, limits: Limits) -> float:
    edge = SMALLEST
    while True:
        (slowest_ns,) = control.highest(round(_product(control, dtype, edge, SIZING) * 1e9))
        if slowest_ns >= limits.product_s * 1e9 or 2 * edge > limits.matrix:
            return float(2 * edge**3 / _product(control, dtype, edge, TRIES))
        edge *= 2


def _product(control: Control, dtype: torch.dtype, edge: int, tries: int) -> float:
    device = control.ranks.device
    a = torch.randn(edge, edge, device=device).to(dtype)
    out = torch.empty_like(a)
    return min(seconds_per_call(lambda: torch.mm(a, a, out=out), device) for _ in range(tries))


def copy_rate(control: Control, limits: Limits) -> float:
    """Bytes per second that arrive in a copy within the device's memory. Collective."""
    device = control.ranks.device
    source = torch.ones(limits.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    control.highest(0)  # all at once, as in a run: ranks of a node share its memory
    seconds = [seconds_per_call(lambda: target.copy_(source), device) for _ in range(TRIES)]
    return limits.copy_bytes / min(seconds)
