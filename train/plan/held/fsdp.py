"""FSDP2: shards of everything, whole parameters of a group of blocks while it computes.

Follows torch/distributed/fsdp/_fully_shard of torch 2.13, where each name below is from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from train.plan.facts import Weight
from train.plan.held.replicated import FP32
from train.plan.holding import Holding, Share
from train.plan.overhead import COPIED

if TYPE_CHECKING:
    from components.parallel.fsdp import FSDP

ROOT = ""

CODE = 30
"""Python around a weight in a step, by operations that have nothing to do: measured on a CPU with a
model so small that nothing else took long."""


@dataclass
class Group:
    """Weights that are gathered together.

    Attributes:
        first, last: the modules at whose begin and end that happens.
        shard, whole: elements of a rank's padded part, and of all ranks' parts.
        gathered, copied: whether the parameters are whole here; or lie in the collective's
            output, from which they have not been copied yet.
        pending: bytes of whole gradients that wait for their reduction.
    """

    weights: tuple[Weight, ...]
    first: str
    last: str
    shards: int

    def __post_init__(self) -> None:
        self.shard = sum(padded(w, self.shards) for w in self.weights)
        self.whole = self.shard * self.shards
        self.trained = sum(padded(w, self.shards) for w in self.weights if w.trainable)
        self.copied = self.gathered = False
        self.pending = 0


def padded(weight: Weight, shards: int) -> int:
    """Elements of one rank's part: rows are dealt out, the last parts padded."""
    rows, *rest = weight.shape
    return math.ceil(rows / shards) * math.prod(rest)


class Sharded(Holding):
    """`fully_shard` over groups of blocks, and over the rest as the root.

    Args:
        fsdp: the strategy with its options.
    """

    newborn = "strategy_buffers"

    def __init__(self, share: Share, fsdp: FSDP) -> None:
        super().__init__(share)
        self.fsdp = fsdp
        self.shards = share.world_size // fsdp.replicate
        self.groups = self._groups()
        self.of_weight = {w.name: group for group in self.groups for w in group.weights}
        self.starts = {group.first: group for group in self.groups}
        self.ends = {group.last: group for group in self.groups}
        self.order = [g for g in self.groups if g.first != ROOT]
        self.order += [g for g in self.groups if g.first == ROOT]
        self.kept = 0  # bytes of the last collective's output, kept until the next has begun
        self.reducing = 0  # bytes of the last reduction's input, kept likewise

    def _groups(self) -> list[Group]:
        """As `FSDP._groups` deals blocks; what is in no block is the root's."""
        facts = self.share.facts
        blocks: dict[str, list[Weight]] = {block: [] for block in facts.blocks}
        rest: list[Weight] = []
        for weight in facts.weights:
            block = facts.block_of(weight.name)
            (rest if block is None else blocks[block]).append(weight)
        dealt: list[list[str]] = []
        limit, size = self.fsdp.group_mb * 2**20, 0
        for block, weights in blocks.items():
            own = sum(w.numel for w in weights) * FP32
            if dealt and size + own <= limit:
                dealt[-1].append(block)
                size += own
            else:
                dealt.append([block])
                size = own
        groups = [
            Group(tuple(w for b in names for w in blocks[b]), names[0], names[-1], self.shards)
            for names in dealt
        ]
        return [*groups, Group(tuple(rest), ROOT, ROOT, self.shards)]

    def start(self) -> None:
        self.add("params", sum(padded(w, self.shards) * w.itemsize for w in self._all()))
        self.add("buffers", self.share.facts.buffers)
        trained = [(padded(w, self.shards), len(w.shape)) for w in self._all() if w.trainable]
        self.hold_state(trained)

    def scalars(self) -> int:
        return super().scalars() + 1  # the norm

    def _all(self) -> tuple[Weight, ...]:
        return self.share.facts.weights

    def stand(self) -> None:
        self.add("grads", FP32 * self.updated())

    # Gathering.

    def gather(self, group: Group) -> None:
        """`unshard`: the collective's output, its own part put in first."""
        if group.gathered or group.copied or not group.whole or self.shards == 1:
            return
        size = group.whole * self.share.compute_bytes
        cast = self.share.precision.mixed
        if cast:
            self.add("strategy_buffers", group.shard * self.share.compute_bytes)
            self.overhead.copies(group.shard * (FP32 + self.share.compute_bytes))
        self.add("strategy_buffers", size)
        self.overhead.copies(COPIED * group.shard * self.share.compute_bytes)
        self.overhead.sends("all-gather")
        if cast:
            self.add("strategy_buffers", -group.shard * self.share.compute_bytes)
        group.gathered = True

    def copy_out(self, group: Group, keep: bool) -> None:
        """`wait_for_unshard`: each parameter in memory of its own."""
        if group.copied or not group.whole:
            return
        size = group.whole * self.share.compute_bytes
        self.add("strategy_buffers", size)
        # The last one's output goes now, not before: a name in `wait_for_unshard` still holds it.
        self.add("strategy_buffers", -self.kept)
        self.kept = 0
        output = size if group.gathered else 0
        self.overhead.copies(COPIED * output)
        group.gathered, group.copied = False, True
        if keep:
            self.kept = output
        else:
            self.add("strategy_buffers", -output)

    def free(self, group: Group) -> None:
        """`reshard`: the whole parameters go."""
        if group.copied:
            group.copied = False
            self.add("strategy_buffers", -group.whole * self.share.compute_bytes)

    def on_enter(self, module: str, size: int) -> None:
        group = self.starts.get(module)
        if group is not None and self._phase == "forward":
            self.gather(group)
            self.copy_out(group, keep=True)

    def on_exit(self, module: str, size: int) -> None:
        group = self.ends.get(module)
        if group is None or self._phase != "forward":
            return
        if self.fsdp.reshard_after_forward:
            self.free(group)
        if module == ROOT:
            self.add("strategy_buffers", -self.kept)
            self.kept = 0

    def on_back(self, module: str, size: int) -> None:
        group = self.ends.get(module)
        if group is None:
            return
        self.gather(group)
        self.copy_out(group, keep=False)
        at = self.order.index(group)
        if at > 0:  # the next one's collective runs meanwhile
            self.gather(self.order[at - 1])

    # Reducing.

    def on_grad(self, weight: str, size: int) -> None:
        group = self.of_weight[weight]
        group.pending += size
        if self.last:
            self.overhead.runs(CODE)
        self.add("strategy_buffers", size)

    def on_done(self, module: str, size: int) -> None:
        group = self.starts.get(module)
        if group is not None and group.first != ROOT:
            self.reduce(group)

    def on_end(self) -> None:
        for group in self.groups:
            self.reduce(group)
        self.add("strategy_buffers", -self.reducing)
        self.reducing = 0

    def reduce(self, group: Group) -> None:
        """`post_backward`: whole gradients become this rank's part of their mean."""
        self.free(group)
        if not group.pending:
            return
        whole = group.trained * self.shards * FP32
        if self.share.accumulation > 1:
            # Kept whole, in fp32, until the last micro-batch, to which they are added.
            self.add("strategy_buffers", (whole if self.first else 0) - group.pending)
            if not self.first:
                self.overhead.copies(group.pending + 2 * whole)
            elif self.share.precision.mixed:
                self.overhead.copies(group.pending + whole)
            group.pending = whole
            if not self.last:
                group.pending = 0
                return
        self.add("strategy_buffers", -self.reducing)
        self.add("strategy_buffers", whole)
        self.overhead.copies(group.pending + whole + COPIED * group.trained * FP32)
        self._send()
        self.reducing = whole
        self.add("strategy_buffers", -group.pending)
        group.pending = 0
        self.add("grads", group.trained * FP32)
        if not self.share.gpu:
            self.spike("strategy_buffers", whole)  # gloo's own copy

    def _send(self) -> None:
        if self.shards > 1:
            self.overhead.sends("reduce-scatter")
        if self.fsdp.replicate > 1:
            self.overhead.sends("all-reduce")
