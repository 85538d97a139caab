"""ZeRO stage 1: gradients are whole until the step's last backward is over."""

from __future__ import annotations

import math

from train.plan.held.replicated import FP32
from train.plan.held.zero_flat import CODE, Flat
from train.plan.overhead import COPIED, SUMMED

ENGINE_BUCKET = 500_000_000
"""Elements that stage 1 in bf16 reduces at a time, whatever the configured bucket."""


class Bf16Stage1(Flat):
    """Whole fp32 gradients at all times, and the half ones of the backward beside them."""

    newborn = "strategy_buffers"

    def scalars(self) -> int:
        return 2  # whole gradients have the same norm everywhere

    def start(self) -> None:
        super().start()
        self.add("grads", FP32 * sum(row.whole for row in self.rows))

    def stand(self) -> None:
        trained = sum(w.numel for row in self.rows for w in row.weights)
        self.add("strategy_buffers", trained * self.share.compute_bytes)

    def on_grad(self, weight: str, size: int) -> None:
        self.overhead.runs(CODE)
        self.overhead.copies(size + (FP32 + SUMMED * FP32) * self.sizes[weight])
        if self.first:
            self.add("strategy_buffers", size)
        else:
            self.overhead.copies(SUMMED * size)

    def on_update(self) -> None:
        # "allreduce_bucket" reduces a copy.
        trained = sum(w.numel for row in self.rows for w in row.weights)
        self.overhead.sends("all-reduce", math.ceil(trained / ENGINE_BUCKET))
        # Put together, divided, copied back; set to zero, twice, for the next step.
        self.overhead.copies((3 * COPIED + 2) * FP32 * trained)
        if self.share.accumulation > 1:  # half gradients, which the micro-batches were added to
            self.overhead.copies(self.share.compute_bytes * trained)
        # All of it is clipped, which the parts' own count below has in part.
        self.overhead.copies(COPIED * FP32 * (trained - self.part))
        self.spike("strategy_buffers", FP32 * min(trained, ENGINE_BUCKET))
        self.drop("strategy_buffers")
        super().on_update()


class Stage1(Flat):
    """Whole gradients until the step's last backward is over; in fp32 also under fp16."""

    def _newborn(self, weight: str) -> str:
        mixed = self.share.precision.mixed
        return "strategy_buffers" if self.first and not mixed else "activations"

    def start(self) -> None:
        super().start()
        self.whole = 0

    def stand(self) -> None:
        super().stand()
        # Those of other ranks' parts go when the update begins.
        trained = sum(w.numel for row in self.rows for w in row.weights)
        self.add("strategy_buffers", FP32 * (trained - self.part))

    def bucket_bytes(self) -> int:
        return FP32 * self.bucket

    def on_begin(self) -> None:
        if self.first:
            self.whole = 0

    def on_grad(self, weight: str, size: int) -> None:
        own = FP32 * self.sizes[weight]
        self.overhead.runs(CODE)
        if self.share.precision.mixed:  # kept as fp32
            self.overhead.copies(size + own)
        if not self.first:
            self.overhead.copies(SUMMED * own)
            if self.share.precision.mixed:  # added as fp32
                self.spike("strategy_buffers", own)
            return
        if not self.whole:
            self.add("strategy_buffers", FP32 * self.bucket)
        self.add("strategy_buffers", own)
        self.whole += own

    def on_end(self) -> None:
        if not self.last:
            return
        for name in self.cuts:
            if not self.fits(name):
                self.reduce(FP32)
                self.emptied()
            self.fill(name, FP32)
        self.reduce(FP32)
        self.emptied()
        # In fp32 the first bucket's gradients lie in it, and there alone, when the memory for this
        # rank's part is taken; fp32 sums of half ones stay until all is reduced.
        filled = min(FP32 * self.bucket, self.whole)
        if not self.share.precision.mixed:
            self.add("strategy_buffers", -filled)
        self.add("grads", FP32 * self.kept_elements())
        self.add("strategy_buffers", -FP32 * self.bucket)

    def on_update(self) -> None:
        self.drop("strategy_buffers")
        self.prepare_update()
        super().on_update()
