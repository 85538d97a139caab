"""ZeRO stage 3 as DeepSpeed 0.19 enacts it: everything is spread, weights are gathered for use.

Names in quotation marks are those of deepspeed/runtime/zero/stage3.py and
partitioned_param_coordinator.py, whose rules of fetching and releasing are replayed here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from train.plan.held.replicated import FP32
from train.plan.held.zero_flat import FP64
from train.plan.holding import Holding, Share
from train.plan.overhead import COPIED, SUMMED
from train.plan.trace import Event

CODE = 20
"""DeepSpeed's Python as a module begins or ends, by operations that have nothing to do: measured as
at the other stages."""

Use = tuple[str, tuple[str, ...]]
"""A module whose turn it is, and its own weights."""


@dataclass
class Flight:
    """Weights that one collective gathers.

    Attributes:
        size: bytes of its output, which is copied out; 0 for a single one, which stays in it.
    """

    size: int
    names: list[str]
    copied: bool = False


class Stage3(Holding):
    """One rank's part of each weight; those in use whole, and some ahead of it.

    Args:
        section: DeepSpeed's `zero_optimization`.
        params_elsewhere: whether the parts of weights are offloaded as well.
    """

    def __init__(
        self,
        share: Share,
        section: dict[str, Any],
        elsewhere: frozenset[str] = frozenset(),
        params_elsewhere: bool = False,
    ) -> None:
        super().__init__(share, elsewhere)
        self.params_elsewhere = params_elsewhere
        self.section = section
        world = share.world_size
        self.numel = {w.name: w.numel for w in share.facts.weights}
        self.trainable = {w.name for w in share.facts.weights if w.trainable}
        self.part = {name: math.ceil(n / world) for name, n in self.numel.items()}
        threshold = section["stage3_param_persistence_threshold"]
        self.persistent = {name for name, n in self.numel.items() if n <= threshold}
        self.here: set[str] = set()
        self.flying: dict[str, Flight] = {}  # not waited for yet, by what it comes with
        self.pending: list[str] = []
        self.filled = self.reducing = 0

    def scalars(self) -> int:
        return super().scalars() + 2  # the norm, and whether it can be used

    def start(self) -> None:
        world = self.share.world_size
        own = sum(self.part.values())
        small = sum(math.ceil(self.numel[n] / world) * world for n in self.persistent)
        if self.params_elsewhere:
            self.add_outside(own * self.share.compute_bytes)
            own = 0
        self.add("params", (own + small) * self.share.compute_bytes)
        self.here = set(self.persistent)
        self.add("buffers", self.share.facts.buffers)
        trained = sum(self.part[name] for name in self.trainable)
        self.add("master", FP32 * trained)
        self.hold_state([(trained, 1)])
        self.add("grads", FP32 * trained)
        self.add("strategy_buffers", FP32 * self.section["reduce_bucket_size"])

    def stand(self) -> None:
        """Gradients and their bucket are there at all times."""

    # Fetching and releasing.

    def run(self, events: Sequence[Event]) -> None:
        # A module without weights is a turn too: others' are gathered ahead on it.
        uses = self.share.facts.uses
        turns = [(m, uses.get(m, ())) for kind, m, _, _ in events if kind in ("enter", "back")]
        self.turns: list[Use] = turns
        super().run(events)

    def on_begin(self) -> None:
        """The recorded order of the last micro-batch is this one's."""
        self.step = 0
        self.available = 0
        seen: list[tuple[str, int]] = []
        for at, (_, names) in enumerate(self.turns):
            seen += [(name, at) for name in names]
        self.queue = deque(seen)
        self.fetched_for = dict.fromkeys(self.numel, -1)
        self.active: dict[str, set[str]] = {name: set() for name in self.numel}

    def on_enter(self, module: str, size: int) -> None:
        self.fetch(module)

    on_back = on_enter

    def on_exit(self, module: str, size: int) -> None:
        self.release(module)

    on_done = on_exit

    def gather(self, names: list[str]) -> None:
        """One collective; its output is copied out when the first of them is waited for."""
        world = self.share.world_size
        size = sum(self.part[n] for n in names) * world * self.share.compute_bytes
        self.add("strategy_buffers", size)
        self.available += sum(self.numel[n] for n in names)
        flight = Flight(size if len(names) > 1 else 0, names)
        self.overhead.sends("all-gather")
        if flight.size:  # the rank's own parts put together
            self.overhead.copies(COPIED * size / world)
        self.flying |= dict.fromkeys(names, flight)

    def wait(self, name: str) -> None:
        """Copied out as soon as one is needed; what has arrived stays until each has been."""
        flight = self.flying.pop(name)
        if not flight.copied:
            flight.copied = True
            self.here |= set(flight.names)
            if flight.size:
                copied = sum(self.numel[n] for n in flight.names) * self.share.compute_bytes
                self.add("strategy_buffers", copied)
                self.overhead.copies(COPIED * copied)
        if flight.size and not any(other is flight for other in self.flying.values()):
            self.add("strategy_buffers", -flight.size)

    def fetch(self, module: str) -> None:
        """ "fetch_sub_module"."""
        self.overhead.runs(CODE)
        names = self.share.facts.uses.get(module, ())
        missing = [n for n in names if n not in self.here and n not in self.flying]
        if missing:
            self.gather(missing)
        for name in names:
            self.active[name].add(module)
            if name in self.flying:
                self.wait(name)
        due = [n for n in names if self.fetched_for[n] < self.step]
        popped: set[str] = set()
        while self.queue and len(popped) < len(due):
            name, at = self.queue.popleft()
            self.fetched_for[name] = at
            popped.add(name)
        room = min(
            self.section["stage3_max_live_parameters"] - self.available,
            self.section["stage3_prefetch_bucket_size"],
        )
        ahead: list[str] = []
        while self.queue and sum(self.numel[n] for n in ahead) < room:
            name, at = self.queue.popleft()
            self.fetched_for[name] = max(self.fetched_for[name], at)
            if name not in self.here and name not in self.flying and name not in ahead:
                ahead.append(name)
        if ahead:
            self.gather(ahead)
        self.step += 1

    def release(self, module: str) -> None:
        """ "release_sub_module", but for those that are used again soon."""
        self.overhead.runs(CODE)
        names = self.share.facts.uses.get(module, ())
        keep = {n for n in names if n in self.persistent or self.fetched_for[n] > self.step}
        passed = 0
        for _, used in self.turns[self.step :]:
            if passed >= self.section["stage3_max_reuse_distance"]:
                break
            keep |= set(used)
            passed += sum(self.numel[n] for n in used)
        for name in names:
            self.active[name].discard(module)
            if name in self.here and name not in keep and not self.active[name]:
                self.here.discard(name)
                self.available -= self.numel[name]
                self.add("strategy_buffers", -self.numel[name] * self.share.compute_bytes)

    # Reducing.

    def _newborn(self, weight: str) -> str:
        # One that is larger than the bucket stays in its own memory.
        large = self.numel[weight] > self.section["reduce_bucket_size"]
        return "strategy_buffers" if large else "activations"

    def on_grad(self, weight: str, size: int) -> None:
        bucket, count = self.section["reduce_bucket_size"], self.numel[weight]
        part = self._newborn(weight)
        self.add(part, size)  # it is there while those before it are reduced
        if self.filled and self.filled + count > bucket:
            self.flush()
        if self.filled + count > bucket:  # it does not fit, and waits where it is
            self.reducing += size
        else:
            self.add(part, -size)
            self.overhead.copies(size + FP32 * count)
        self.filled += count
        self.pending.append(weight)

    def flush(self) -> None:
        """ "__avg_scatter_grads": copies in fp32, of all that is reduced."""
        whole = len(self.pending) == 1 and not self.filled % self.share.world_size
        copies = 0 if whole else 1  # the ranks' parts put in order
        copies += bool(self.reducing) and self.share.precision.mixed  # the bucket is in fp32
        self.overhead.copies(COPIED * (1 + copies) * FP32 * self.filled)  # with its division
        own = sum(self.part[name] for name in self.pending)
        self.overhead.copies(FP32 * (COPIED + (COPIED if self.first else SUMMED)) * own)
        self.overhead.sends("reduce-scatter")
        copies += not self.share.gpu  # gloo makes one of its own
        self.spike("strategy_buffers", copies * FP32 * self.filled)
        self.add("strategy_buffers", -self.reducing)
        self.pending = []
        self.filled = self.reducing = 0

    def on_update(self) -> None:
        # "_prepare_fp32_grad_for_sub_group" lays the parts' gradients in a row where the update is.
        if "optimizer" not in self.elsewhere:
            self.spike("strategy_buffers", FP32 * self.updated())
            self.overhead.copies((FP32 + FP64 + COPIED * FP32) * self.updated())
        super().on_update()
        if self.share.precision.compute is torch.float16:  # "isinf", "isnan" and "any" of each
            self.overhead.copies(2 * (FP32 + 2) * self.updated())
        # Unscaled and clipped; then the weights follow their masters.
        passed = COPIED * FP32 + FP32 + self.share.compute_bytes
        self.overhead.copies(passed * self.updated())
        self.overhead.sends("all-gather", len(self.persistent))

    def on_end(self) -> None:
        if self.filled:
            self.flush()
        for name in [n for n in self.here if n not in self.persistent]:
            self.here.discard(name)
            self.add("strategy_buffers", -self.numel[name] * self.share.compute_bytes)
