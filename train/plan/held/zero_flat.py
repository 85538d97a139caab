"""What ZeRO's stages 1 and 2 have in common, as DeepSpeed 0.19 enacts them: parameters whole,
optimizer state spread.

Names in quotation marks, here and in the modules of the stages, are those of
deepspeed/runtime/zero/stage_1_and_2.py and, for stage 1 in bf16, of
deepspeed/runtime/bf16_optimizer.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from train.plan.held.replicated import FP32
from train.plan.held.zero_rows import Row
from train.plan.holding import Holding, Share
from train.plan.overhead import COPIED, SUMMED

FP64 = 8
"""Bytes of an element of which DeepSpeed takes norms."""

CODE = 30
"""DeepSpeed's Python around a weight's gradient, by operations that have nothing to do: measured on
a CPU with a model so small that nothing else took long."""


class Flat(Holding):
    """One rank's share.

    Args:
        bucket: elements that are reduced at a time (`reduce_bucket_size`).
        rows: how the weights are dealt out.
        rank: whose memory this is.

    Attributes:
        reduced_early: whether gradients are reduced while the backward runs.
    """

    reduced_early: ClassVar[bool] = False

    def __init__(
        self,
        share: Share,
        bucket: int,
        rows: Sequence[Row],
        rank: int = 0,
        elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(share, elsewhere)
        self.bucket = bucket
        self.rows = rows
        self.part = sum(row.part for row in self.rows)
        self.rank = rank
        self.cuts = {name: cut for row in rows for name, cut in row.cuts.items()}  # row by row
        cuts = self.cuts.items()
        self.pieces = {name: cut[rank] for name, cut in cuts if rank in cut}  # that are this rank's
        self.sizes = {w.name: w.numel for w in share.facts.weights}
        self.filled = 0
        self.pending: list[str] = []

    def scalars(self) -> int:
        # The norm, whether it can be used, and in half types whether sums have overflown.
        return 4 + self.share.precision.mixed

    def start(self) -> None:
        frozen = sum(w.numel for w in self.share.facts.weights if not w.trainable)
        whole = sum(row.whole for row in self.rows)
        self.add("params", (whole + frozen) * self.share.compute_bytes)
        self.add("buffers", self.share.facts.buffers)
        self.add("master", FP32 * self.part)
        parts = [(row.part, 1) for row in self.rows]
        self.hold_state(parts)
        if "optimizer" in self.elsewhere:  # "temp_grad_buffer_for_gpu_offload"
            largest = max(self.sizes.values(), default=0)
            self.add("strategy_buffers", largest * self.share.compute_bytes)

    def stand(self) -> None:
        self.add("grads", FP32 * self.part)
        self.add("strategy_buffers", self.bucket_bytes())

    def bucket_bytes(self) -> int:
        """Of the bucket, in the type in which it is filled."""
        return self.bucket * self.share.compute_bytes

    def kept_elements(self) -> int:
        """Of the gradients that stay here.

        In a half type the part is of its own; in fp32 weights that reach into it are whole.
        """
        half = self.share.precision.mixed
        return self.part if half else sum(self.sizes[name] for name in self.pieces)

    def prepare_update(self) -> None:
        """ "get_grad_norm_direct": of each gradient in fp64, one after the other; then the part's
        gradients in a row. Where the update is offloaded, neither is here.
        """
        if "optimizer" in self.elsewhere:
            return
        self.spike("strategy_buffers", FP64 * max(self.pieces.values(), default=0))
        self.overhead.copies((FP32 + FP64) * self.part)
        if self.share.precision.mixed:  # looked through for overflows, by their least and most
            self.overhead.copies(2 * FP32 * self.part)
        else:  # sums of half gradients lie in a row already
            self.overhead.copies(COPIED * FP32 * self.part)
            self.spike("strategy_buffers", FP32 * max((row.part for row in self.rows), default=0))

    def on_update(self) -> None:
        super().on_update()
        # Unscaled and clipped; then the weights follow their masters.
        self.overhead.copies((COPIED * FP32 + FP32 + self.share.compute_bytes) * self.part)
        self.overhead.sends("all-gather", len(self.rows))

    def fits(self, weight: str) -> bool:
        """Whether a gradient finds room in the bucket, as far as it is filled."""
        return self.filled + self.sizes[weight] <= self.bucket

    def fill(self, weight: str, itemsize: int) -> None:
        """A gradient is copied into the bucket, unless it is larger than all of it."""
        count = self.sizes[weight]
        if count <= self.bucket:
            self.overhead.copies(COPIED * itemsize * count)
        self.filled += count
        self.pending.append(weight)

    def reduce(self, itemsize: int) -> list[list[int]]:
        """ "average_tensor": what the bucket holds is divided and all-reduced in fp32, and what is
        this rank's kept: in fp32 by two copies, and added to what is there; in a half type it is
        added to fp32 sums.

        Returns:
            The reductions.
        """
        reductions = list(self.reductions())
        for slices in reductions:
            passes = COPIED * itemsize
            if len(slices) > 1:
                passes += COPIED * itemsize
            if itemsize != FP32:
                passes += 2 * (itemsize + FP32)
            self.overhead.copies(passes * sum(slices))
            self.overhead.sends("all-reduce")
        own = sum(self.pieces.get(name, 0) for name in self.pending)
        if self.share.precision.mixed:
            self.overhead.copies((itemsize + FP32 + SUMMED * FP32) * own)
        else:
            passes = 2 * COPIED if self.first or not self.reduced_early else 2 * COPIED + SUMMED
            self.overhead.copies(passes * FP32 * own)
        return reductions

    def reductions(self) -> Iterator[list[int]]:
        """Sizes of the slices that "allreduce_and_scatter" takes together, in elements.

        What one rank has of several weights is one slice, but for this rank's own in a half type,
        whose sums are kept elsewhere, in fp32, weight by weight.
        """
        slices: list[tuple[int, int]] = []
        for name in self.pending:
            for rank, count in self.cuts[name].items():
                apart = self.share.precision.mixed and rank == self.rank
                if slices and slices[-1][0] == rank and not apart:
                    slices[-1] = (rank, slices[-1][1] + count)
                else:
                    slices.append((rank, count))
        together, size = list[int](), 0
        for _, count in slices:
            together.append(count)
            size += count
            if size > self.bucket:
                yield together
                together, size = [], 0
        if together:
            yield together

    def emptied(self) -> None:
        """The bucket can be filled anew."""
        self.filled = 0
        self.pending = []

    def drop(self, part: str) -> None:
        """All of a part goes."""
        self.add(part, -self.now[part])
