"""ZeRO stage 2: gradients are reduced while the backward runs."""

from __future__ import annotations

from collections.abc import Iterable

from train.plan.held.replicated import FP32
from train.plan.held.zero_flat import CODE, Flat


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
        reductions = self.reduce(self.share.compute_bytes)
        self.spike("strategy_buffers", max(map(self._copied, reductions)))
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
