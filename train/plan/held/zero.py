"""Which of DeepSpeed's ways a ZeRO stage takes in a precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from train.plan.held.zero3 import Stage3
from train.plan.held.zero_flat import Bf16Stage1, Stage1, Stage2
from train.plan.holding import Holding, Share

if TYPE_CHECKING:
    from components.parallel.zero import Zero


def zero_holding(share: Share, zero: Zero, config: dict[str, Any]) -> Holding:
    """The holding of a ZeRO stage.

    Args:
        config: as `Zero.deepspeed_config` derives it.
    """
    section = config["zero_optimization"]
    if zero.options.stage == 3:
        return Stage3(share, section)
    bucket = section["reduce_bucket_size"]
    if zero.options.stage == 2:
        return Stage2(share, bucket)
    if share.precision.compute is torch.bfloat16:
        return Bf16Stage1(share, bucket)
    return Stage1(share, bucket)
