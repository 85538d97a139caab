"""How fast one rank multiplies matrices and copies memory, while all others do the same."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from components.cluster.control import Control
from train.check.limits import Limits
from train.check.timing import seconds_per_call

CPU_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
GPU_TYPES = {**CPU_TYPES, "fp16": torch.float16}
"""By the words of `precision`. fp16 on a CPU says nothing of what it is chosen for."""

SMALLEST = 128
"""Edge of the first product, which tells how large the one that counts can be."""

CHAIN = 50
"""Operations one after the other, to tell how long one takes."""

SIZING, TRIES = 2, 15
"""Tries of a product that only tells how long it takes, and of what counts: the best of them."""


def matmul_rates(control: Control, limits: Limits) -> dict[str, float]:
    """FLOP/s of matrix products by type, as a linear layer's step takes them. Collective.

    That is 6 n^3 over the shortest of `TRIES` of its three products: inputs with transposed
    weights, and in the backward gradients with weights, and transposed gradients with inputs. A
    CPU may multiply half numbers much faster in one of these than in another.
    The edge n is the same on all ranks: the first at which the slowest rank takes long enough.
    """
    types = GPU_TYPES if control.ranks.device.type == "cuda" else CPU_TYPES
    return {name: _rate(control, dtype, limits) for name, dtype in types.items()}


def _rate(control: Control, dtype: torch.dtype, limits: Limits) -> float:
    edge = SMALLEST
    while True:
        (slowest_ns,) = control.highest(round(_products(control, dtype, edge, SIZING) * 1e9))
        if slowest_ns >= limits.product_s * 1e9 or 2 * edge > limits.matrix:
            return float(6 * edge**3 / _products(control, dtype, edge, TRIES))
        edge *= 2


def _products(control: Control, dtype: torch.dtype, edge: int, tries: int) -> float:
    device = control.ranks.device
    inputs, weights = (torch.randn(edge, edge, device=device).to(dtype) for _ in range(2))

    def layer() -> None:
        grads = F.linear(inputs, weights)
        torch.mm(grads, weights)
        torch.mm(grads.t(), inputs)

    return min(seconds_per_call(layer, device) for _ in range(tries))


def operation_time(control: Control) -> float:
    """Seconds that an operation takes which has next to nothing to do, forward or backward."""
    device = control.ranks.device
    x = torch.ones(1, device=device, requires_grad=True)

    def chain() -> None:
        y = x
        for _ in range(CHAIN):
            y = y * 2.0
        y.backward()

    return min(seconds_per_call(chain, device) for _ in range(TRIES)) / (2 * CHAIN)


def copy_rate(control: Control, limits: Limits) -> float:
    """Bytes per second that arrive in a copy within the device's memory. Collective."""
    device = control.ranks.device
    source = torch.ones(limits.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    control.highest(0)  # all at once, as in a run: ranks of a node share its memory
    seconds = [seconds_per_call(lambda: target.copy_(source), device) for _ in range(TRIES)]
    return limits.copy_bytes / min(seconds)
