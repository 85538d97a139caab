"""A fake model on the CPU that takes the ways it would take on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

GPU = torch.device("cuda", 0)

FP32_ON_GPU = (F.layer_norm, F.rms_norm, F.group_norm)
"""Of the functions that autocast computes in fp32 on a GPU and in the half type on a CPU, those
that models are made of (AT_FORALL_FP32 in ATen/autocast_mode.h)."""


class PretendGpu(TorchFunctionMode):
    """Inside, tensors on the CPU say that they are on a GPU, and functions do as they do there.

    torch without CUDA cannot run a backward of fake CUDA tensors. What differs between the two
    in what is kept for a backward is put right here: attention never materialises its weights,
    a dropout keeps a mask of bytes, norms compute in fp32 under autocast.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.device.__get__:
            return GPU
        if "device" in kwargs:
            kwargs["device"] = "cpu"
        if func is F.scaled_dot_product_attention:
            # With dropout the CPU has no fused kernel; a GPU's keeps no more than without.
            kwargs["dropout_p"] = 0.0
        elif func is F.dropout:
            return _dropout(*args, **kwargs)
        elif func in FP32_ON_GPU and torch.is_autocast_enabled("cpu"):
            args = tuple(a.float() if isinstance(a, Tensor) else a for a in args)
            kwargs = {k: a.float() if isinstance(a, Tensor) else a for k, a in kwargs.items()}
            with torch.autocast("cpu", enabled=False):
                return func(*args, **kwargs)
        return func(*args, **kwargs)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or p == 0.0:
        return input
    return torch.native_dropout(input, p, True)[0]
