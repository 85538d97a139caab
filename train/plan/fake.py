"""A model of fake tensors: shapes, types and autograd as in a run, and no memory."""

from __future__ import annotations

import torch
from torch import nn

from components.parallel.half_parameters import compute_as_autocast


def make_fake(model: nn.Module, half: torch.dtype | None) -> None:
    """Give a model fake parameters and buffers. Call under a FakeTensorMode.

    Args:
        model: on the meta device; changed in place.
        half: the type of the floating parameters, where the strategy computes with half copies
            of them; None leaves them as they are.
    """
    made: dict[nn.Parameter, nn.Parameter] = {}  # a shared parameter stays shared
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is None:
                continue
            if p not in made:
                dtype = half if half is not None and p.is_floating_point() else p.dtype
                made[p] = nn.Parameter(torch.empty(p.shape, dtype=dtype), p.requires_grad)
            module._parameters[name] = made[p]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)
    if half is not None:
        compute_as_autocast(model)
