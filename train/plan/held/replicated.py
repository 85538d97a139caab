"""The whole model on each rank: single, dp and ddp."""

from __future__ import annotations

from train.plan.holding import Holding, Share
from train.plan.overhead import COPIED, SUMMED

FP32 = 4
"""Bytes of an element of gradients and masters."""


class Replicated(Holding):
    """Gradients come one by one in the backward and go with the update."""

    newborn = "grads"

    def start(self) -> None:
        facts = self.share.facts
        self.add("params", sum(w.size for w in facts.weights))
        self.add("buffers", facts.buffers)
        trained = [(w.numel, len(w.shape)) for w in facts.weights if w.trainable]
        self.hold_state(trained)

    def on_grad(self, weight: str, size: int) -> None:
        self.hold_grad(size)
        if not self.first:
            self.overhead.copies(SUMMED * size)

    def hold_grad(self, size: int) -> None:
        """The others are added to the first micro-batch's."""
        if self.first:
            self.add("grads", size)

    def stand(self) -> None:
        self.add("grads", FP32 * self.share.facts.trainable)


class Reduced(Replicated):
    """DDP: gradients go through buckets, each all-reduced when it is full.

    Args:
        bucket: bytes at which one is full (`bucket_cap_mb`).
    """

    def __init__(self, share: Share, bucket: float) -> None:
        super().__init__(share)
        self.bucket = bucket
        self.filled = 0

    def on_grad(self, weight: str, size: int) -> None:
        super().on_grad(weight, size)
        if self.last:
            self.overhead.copies(COPIED * size)  # divided by the ranks on its way
            self.filled += size
            if self.filled >= self.bucket:
                self.flush()

    def on_end(self) -> None:
        if self.filled:
            self.flush()

    def flush(self) -> None:
        """A bucket's all-reduce."""
        self.overhead.sends("all-reduce")
        self.filled = 0


class Bucketed(Reduced):
    """The buckets are there at all times; gradients live in them."""

    def __init__(self, share: Share, bucket: float) -> None:
        super().__init__(share, bucket)
        # With one micro-batch a gradient is copied into its bucket as soon as it is there.
        self.later = share.accumulation > 1

    def _newborn(self, weight: str) -> str:
        return "strategy_buffers" if self.later and self.first else "activations"

    def start(self) -> None:
        super().start()
        self.add("grads", FP32 * self.share.facts.trainable)

    def stand(self) -> None:
        """Gradients lie in the buckets, which are there."""

    def hold_grad(self, size: int) -> None:
        # Before the last micro-batch nothing is reduced, and gradients lie beside the buckets.
        if self.later and self.first:
            self.add("strategy_buffers", size)
        if self.later and self.last:
            self.add("strategy_buffers", -size)


class CopiedIntoBuckets(Reduced):
    """DDP with gradient_as_bucket_view=false: gradients come and go beside the buckets."""

    def start(self) -> None:
        super().start()
        self.add("strategy_buffers", FP32 * self.share.facts.trainable)

    def on_grad(self, weight: str, size: int) -> None:
        super().on_grad(weight, size)
        if self.last:
            self.overhead.copies(COPIED * size)  # back from the bucket
