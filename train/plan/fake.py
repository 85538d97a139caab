"""A model of fake tensors: shapes, types and autograd as in a run, and no memory."""

from __future__ import annotations

import torch
from torch import nn

from components.parallel.half_parameters import compute_as_autocast


def make_fake(model: nn.Module, half: torch.dtype | None, tied: bool = True) -> None:
    """Give a model fake parameters and buffers. Call under a FakeTensorMode.

    Args:
        model: on the meta device; changed in place.
        half: the type of the floating parameters, where the strategy computes with half copies
            of them; None leaves them as they are.
        tied: whether a parameter that several of the model's parts share is one; else each part
            has its own, as a pipeline's stages do.
    """
    made: dict[tuple[nn.Parameter, str], nn.Parameter] = {}  # a shared parameter stays shared
    for path, module in model.named_modules():
        part = "" if tied else path.partition(".")[0]
        for name, p in module._parameters.items():
            if p is None:
                continue
            if (p, part) not in made:
                dtype = half if half is not None and p.is_floating_point() else p.dtype
                made[p, part] = nn.Parameter(torch.empty(p.shape, dtype=dtype), p.requires_grad)
            module._parameters[name] = made[p, part]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)
    if half is not None:
        compute_as_autocast(model)


def shared_by_parts(model: nn.Module) -> bool:
    """Whether a parameter is used in several of a model's parts, as tied embeddings are."""
    parts: dict[nn.Parameter, set[str]] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        parts.setdefault(p, set()).add(name.partition(".")[0])
    return any(len(some) > 1 for some in parts.values())
