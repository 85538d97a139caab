"""Linear layers as DeepSpeed has them at stage 3: what they keep is not what torch's keep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class LinearOfStage3(TorchFunctionMode):
    """Inside, a linear layer keeps its input as it came, and narrows it anew in the backward.

    torch's own under autocast keeps the narrowed copy. DeepSpeed's (its runtime/zero/linear.py)
    takes the place of torch.nn.functional.linear, so that weights can be freed meanwhile.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is F.linear:
            return _linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _Linear.apply(input, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(input, weight, bias)
        ctx.autocast = torch.is_autocast_enabled("cpu")
        ctx.dtype = torch.get_autocast_dtype("cpu")
        output = input.matmul(weight.t())
        if bias is not None:
            output += bias
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        input, weight, bias = ctx.saved_tensors
        needed = ctx.needs_input_grad
        with torch.autocast("cpu", enabled=ctx.autocast, dtype=ctx.dtype):
            to_input = grad.matmul(weight) if needed[0] else None
            flat = grad.reshape(-1, grad.shape[-1])
            rows = input.reshape(-1, input.shape[-1])
            to_weight = flat.t().matmul(rows) if needed[1] else None
            to_bias = flat.sum(0) if bias is not None and needed[2] else None
        return to_input, to_weight, to_bias
