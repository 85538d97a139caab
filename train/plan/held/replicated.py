"""The whole model on each rank: single, dp and ddp."""

from __future__ import annotations

from train.plan.holding import Holding, Share

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
        if self.first:  # the others are added to what is there
            self.add("grads", size)

    def stand(self) -> None:
        self.add("grads", FP32 * self.share.facts.trainable)


class Bucketed(Replicated):
    """DDP's buckets are there at all times; gradients live in them."""

    def __init__(self, share: Share) -> None:
        super().__init__(share)
        # With one micro-batch a gradient is copied into its bucket as soon as it is there.
        self.later = share.accumulation > 1

    def _newborn(self, weight: str) -> str:
        return "strategy_buffers" if self.later and self.first else "activations"

    def start(self) -> None:
        super().start()
        self.add("grads", FP32 * self.share.facts.trainable)

    def stand(self) -> None:
        """Gradients lie in the buckets, which are there."""

    def on_grad(self, weight: str, size: int) -> None:
        if self.later:
            # Before the last micro-batch nothing is reduced, and gradients lie beside the buckets.
            if self.first:
                self.add("strategy_buffers", size)
            if self.last:
                self.add("strategy_buffers", -size)


class CopiedIntoBuckets(Replicated):
    """DDP with gradient_as_bucket_view=false: gradients come and go beside the buckets."""

    def start(self) -> None:
        super().start()
        self.add("strategy_buffers", FP32 * self.share.facts.trainable)
