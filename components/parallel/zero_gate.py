"""A gate before the optimizer step of a DeepSpeed engine.

Its optimizers skip a step whose norm is not finite, and clean up after it. So the norm of a step
that is to be skipped is said to be infinite, in the one place where each of them asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Admits = Callable[[Tensor], bool]
"""Whether a step of this unscaled norm may be applied."""


def install(zero_optimizer: Any, admits: Admits) -> None:
    """Have a ZeRO optimizer ask before each step that has not overflowed."""
    if hasattr(zero_optimizer, "scaled_global_norm"):  # stages 1 and 2
        _around(zero_optimizer, "scaled_global_norm", admits, lambda norm: norm, _infinite)
    elif hasattr(zero_optimizer, "_get_norm_groups"):  # stage 3
        _around(
            zero_optimizer, "_get_norm_groups", admits, _combined, lambda norm: [_infinite(norm)]
        )
    else:  # stage 1 in bf16
        _before_bf16(zero_optimizer, admits)


def _around(
    zero_optimizer: Any,
    name: str,
    admits: Admits,
    norm_of: Callable[[Any], Tensor],
    refused: Callable[[Tensor], Any],
) -> None:
    asked = getattr(zero_optimizer, name)

    @wraps(asked)
    def ask(*args: Any, **kwargs: Any) -> Any:
        answer = asked(*args, **kwargs)
        norm = torch.as_tensor(norm_of(answer))
        return answer if admits(norm / zero_optimizer.loss_scale) else refused(norm)

    setattr(zero_optimizer, name, ask)


def _before_bf16(zero_optimizer: Any, admits: Admits) -> None:
    from deepspeed.runtime.utils import get_global_norm_of_tensors

    asked = zero_optimizer.get_grads_for_norm

    def ask(for_clipping: bool = False) -> Any:
        answer = asked(for_clipping=for_clipping)
        if for_clipping:
            return answer
        norm = get_global_norm_of_tensors(answer[0], mpu=zero_optimizer.mpu)
        norm = torch.where(norm < 0, _infinite(norm), norm)  # what it makes of one not finite
        return answer if admits(norm) else ([_infinite(norm)], answer[1])

    zero_optimizer.get_grads_for_norm = ask


def _combined(groups: Any) -> Tensor:
    from deepspeed.runtime.utils import combine_grad_norm_groups

    norm: Tensor = combine_grad_norm_groups(groups)
    return norm


def _infinite(norm: Tensor) -> Tensor:
    return torch.full_like(norm, float("inf"))
