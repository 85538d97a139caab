"""ZeRO stages 1 and 2 as DeepSpeed 0.19 enacts them: parameters whole, optimizer state spread.

Names in quotation marks are those of deepspeed/runtime/zero/stage_1_and_2.py and, for stage 1 in
bf16, deepspeed/runtime/bf16_optimizer.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from train.plan.facts import Weight
from train.plan.held.replicated import FP32
from train.plan.holding import Holding, Share
from train.plan.overhead import COPIED, SUMMED

FP64 = 8
"""Bytes of an element of which DeepSpeed takes norms."""

ALIGNMENT = 2
"""Parts begin at multiples of so many elements."""

CODE = 30
"""DeepSpeed's Python around a weight's gradient, by operations that have nothing to do: measured on
a CPU with a model so small that nothing else took long."""

ENGINE_BUCKET = 500_000_000
"""Elements that stage 1 in bf16 reduces at a time, whatever the configured bucket."""


@dataclass(frozen=True)
class Row:
    """The weights of a decay group one behind the other, cut into a part for each rank.

    Attributes:
        part: elements of a rank's part.
        whole: of all parts, padding included.
    """

    weights: tuple[Weight, ...]
    part: int
    whole: int

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the weights."""
        return frozenset(weight.name for weight in self.weights)

    def cuts(self) -> Iterator[tuple[Weight, dict[int, int]]]:
        """Each weight with how many of its elements are whose: by rank, in order."""
        begin = 0
        for weight in self.weights:
            end = begin + weight.numel
            ranks = range(begin // self.part, (end - 1) // self.part + 1)
            yield (
                weight,
                {r: min(end, (r + 1) * self.part) - max(begin, r * self.part) for r in ranks},
            )
            begin = end


def rows_of(share: Share) -> list[Row]:
    """Matrices, which decay, and vectors, which do not, as `decay_groups` deals them."""
    trained = [w for w in share.facts.weights if w.trainable]
    rows = []
    for weights in (
        tuple(w for w in trained if len(w.shape) > 1),
        tuple(w for w in trained if len(w.shape) < 2),
    ):
        if weights:
            unit = ALIGNMENT * share.world_size
            whole = math.ceil(sum(w.numel for w in weights) / unit) * unit
            rows.append(Row(weights, whole // share.world_size, whole))
    return rows


class Flat(Holding):
    """What stages 1 and 2 have in common.

    Args:
        bucket: elements that are reduced at a time (`reduce_bucket_size`).
        rank: whose memory this is.

    Attributes:
        reduced_early: whether gradients are reduced while the backward runs.
    """

    reduced_early: ClassVar[bool] = False

    def __init__(
        self, share: Share, bucket: int, rank: int = 0, elsewhere: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(share, elsewhere)
        self.bucket = bucket
        self.rows = rows_of(share)
        self.part = sum(row.part for row in self.rows)
        self.rank = rank
        self.cuts = {w.name: cut for row in self.rows for w, cut in row.cuts()}  # row by row
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

    def reduce(self, itemsize: int) -> None:
        """ "average_tensor": what the bucket holds is divided and all-reduced in fp32, and what is
        this rank's kept: in fp32 by two copies, and added to what is there; in a half type it is
        added to fp32 sums.
        """
        for slices in self.reductions():
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


class Stage2(Flat):
    """Gradients are reduced bucket by bucket; those of other ranks' parts go at once."""

    reduced_early = True

    def start(self) -> None:
        super().start()
        self.large = 0
        self.taken: set[int] = set()  # the rows for whose sums there is memory
        self.kept = FP32 * self.kept_elements()

    def _newborn(self, weight: str) -> str:
        # One that is larger than the bucket stays in its own memory.
        return "strategy_buffers" if self.sizes[weight] > self.bucket else "activations"

    def on_begin(self) -> None:
        if not self.share.precision.mixed:
            self.taken = set()
        self.opened = False

    def on_grad(self, weight: str, size: int) -> None:
        self.overhead.runs(CODE)
        if not self.opened:  # "setup_buckets"
            self.opened = True
            self.add("strategy_buffers", self.bucket_bytes())
        count, part = self.sizes[weight], self._newborn(weight)
        self.add(part, size)  # it is there while those before it are reduced
        if not self.fits(weight):
            self.flush()
        if count > self.bucket:
            self.large += size
        else:
            self.add(part, -size)
        self.fill(weight, self.share.compute_bytes)

    def flush(self) -> None:
        """What "reduce_ipg_grads" does with a full bucket."""
        if not self.filled:
            return
        mine = {name for name in self.pending if name in self.pieces}
        if self.share.precision.mixed:
            self._take([at for at, row in enumerate(self.rows) if mine & row.names])
        self.reduce(self.share.compute_bytes)
        self.spike("strategy_buffers", max(map(self._copied, self.reductions())))
        if mine and not self.share.precision.mixed and not self.taken:
            self.taken = set(range(len(self.rows)))
            # In fp32 each micro-batch takes it anew, to be added to the one before.
            self.add("grads" if self.first else "strategy_buffers", self.kept)
        self.add("strategy_buffers", -self.large)
        self.large = 0
        self.emptied()

    def _take(self, rows: Iterable[int]) -> None:
        """Memory for the sums of rows, once each, in fp32 beside half gradients."""
        for at in rows:
            if at not in self.taken:
                self.taken.add(at)
                self.add("grads", FP32 * self.rows[at].part)

    def _copied(self, slices: list[int]) -> int:
        """Bytes of the copy in which several slices are put together, and of what is reduced, which
        is in fp32.
        """
        copied = sum(slices) * self.share.compute_bytes if len(slices) > 1 else 0
        return copied + (sum(slices) * FP32 if self.share.precision.mixed else 0)

    def on_end(self) -> None:
        self.flush()
        self.add("strategy_buffers", -self.bucket_bytes())
        if self.last and self.share.precision.mixed:
            self._take(range(len(self.rows)))
        if not self.first and not self.share.precision.mixed:
            self.add("strategy_buffers", -self.kept)

    def on_update(self) -> None:
        self.prepare_update()
        super().on_update()
