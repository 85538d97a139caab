"""Which of DeepSpeed's ways a ZeRO stage takes in a precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from train.plan.held.zero1 import Bf16Stage1, Stage1
from train.plan.held.zero2 import Stage2
from train.plan.held.zero3 import Stage3
from train.plan.held.zero_flat import Flat
from train.plan.held.zero_rows import rows_of
from train.plan.holding import Holding, Share
from train.plan.trace import Event

if TYPE_CHECKING:
    from components.parallel.zero import Zero

FEW_RANKS = 64
"""Whose parts are looked at one by one; of more ranks, the first ones and the last."""


class MostOfRanks(Holding):
    """The rank that needs the most of those between which parts of gradients differ.

    The last one's come first in the backward, while activations are still there; in fp32 weights
    that reach into a part stay whole, and some parts have more of these than others.

    Args:
        stage: of each rank.
    """

    def __init__(
        self, share: Share, stage: type[Flat], bucket: int, elsewhere: frozenset[str]
    ) -> None:
        super().__init__(share, elsewhere)
        last = share.world_size - 1
        rows = rows_of(share)
        every = [
            stage(share, bucket, rows, rank, elsewhere)
            for rank in sorted({*range(min(last, FEW_RANKS)), last})
        ]
        fullest = max(every, key=lambda holding: holding.kept_elements())
        self.ranks = list(dict.fromkeys((every[0], every[-1], fullest)))

    def run(self, events: Sequence[Event]) -> None:
        for holding in self.ranks:
            holding.run(events)
        self._take(max(self.ranks, key=lambda holding: holding.peak.total))

    def run_bare(self) -> None:
        self.ranks[0].run_bare()
        self._take(self.ranks[0])

    def _take(self, most: Flat) -> None:
        self.most, self.now, self.peak = most.most, most.now, most.peak
        self.outside, self.overhead = most.outside, most.overhead
        self._updated_shapes = most._updated_shapes


def zero_holding(share: Share, zero: Zero, config: dict[str, Any]) -> Holding:
    """The holding of a ZeRO stage.

    Args:
        config: as `Zero.deepspeed_config` derives it.
    """
    section = config["zero_optimization"]
    # A CPU has its offloaded tensors in the same memory.
    moved = zero.options.offload_optimizer != "none" and share.gpu
    elsewhere = frozenset({"grads", "master", "optimizer"} if moved else ())
    if zero.options.stage == 3:
        params_moved = zero.options.offload_params != "none" and share.gpu
        return Stage3(share, section, elsewhere, params_moved)
    bucket = section["reduce_bucket_size"]
    if zero.options.stage == 1 and share.precision.compute is torch.bfloat16:
        return Bf16Stage1(share, bucket, rows_of(share))
    return MostOfRanks(share, Stage2 if zero.options.stage == 2 else Stage1, bucket, elsewhere)
