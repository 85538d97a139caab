"""One rank's memory while a step runs: the trace's events, and what a strategy adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from components.precision import Precision
from train.plan.facts import Facts
from train.plan.optimizer_cost import OptimizerCost, Shapes
from train.plan.overhead import Overhead
from train.plan.trace import Event

PARTS = (
    "params",
    "buffers",
    "grads",
    "master",
    "optimizer",
    "strategy_buffers",
    "activations",
)
"""What memory is held for, as the table has it."""


@dataclass(frozen=True)
class Share:
    """What a strategy's figures follow from, apart from the trace.

    Attributes:
        facts: of the whole model.
        precision: of the run.
        world_size: ranks.
        optimizer: what its state and its step take.
        sample_bytes: of inputs and targets of one sample.
        rows: samples of a micro-batch.
        accumulation: micro-batches of a step on a rank.
        gpu: whether the ranks are GPUs.
    """

    facts: Facts
    precision: Precision
    world_size: int
    optimizer: OptimizerCost
    sample_bytes: int = 0
    rows: int = 1
    accumulation: int = 1
    gpu: bool = False

    @property
    def compute_bytes(self) -> int:
        """Bytes of the compute type."""
        return self.precision.compute.itemsize


@dataclass(frozen=True)
class Peak:
    """The largest sum of all parts, what it is made of, and when it is reached."""

    total: int
    parts: dict[str, int]
    moment: str


class Holding:
    """Replays a step. A subclass says what its strategy holds, in the methods named `on_*`.

    Attributes:
        now: bytes of each part at this moment of the step.
        most: the largest that each part becomes.
        first, last: whether this micro-batch is the first, the last of the step.
        elsewhere: parts that lie in no device's memory, as offloaded ones do.
        outside: the largest that their sum becomes.
        newborn: the part that a gradient counts as from the birth of its storage on, in the
            step's first micro-batch; a later one's is added to what is there, and goes.
        overhead: what it does besides, on this rank.
    """

    newborn: ClassVar[str] = "activations"

    def __init__(self, share: Share, elsewhere: frozenset[str] = frozenset()) -> None:
        self.share = share
        self.elsewhere = elsewhere
        self._outside = self.outside = 0
        self.now = dict.fromkeys(PARTS, 0)
        self.most = dict.fromkeys(PARTS, 0)
        self.peak = Peak(0, {}, "")
        self.overhead = Overhead()
        if share.world_size > 1:
            self.overhead.scalars = self.scalars()
        self.first = self.last = True
        self._updated_shapes: Shapes = ()
        self._total = 0
        self._phase = self._module = ""

    def scalars(self) -> int:
        """All-reduces of a number in a step: the count of targets and the sum of losses. In fp16 an
        overflow on any rank is told to all.
        """
        return 2 + (self.share.precision.compute is torch.float16)

    def start(self) -> None:
        """What is held between two steps, the first one over."""
        raise NotImplementedError

    def add(self, part: str, size: float) -> None:
        """So many bytes more of a part, or fewer."""
        size = round(size)
        if part in self.elsewhere:
            self.add_outside(size)
            return
        self.now[part] += size
        self._total += size
        if size > 0:
            self.most[part] = max(self.most[part], self.now[part])
            if self._total > self.peak.total:
                self.peak = Peak(self._total, dict(self.now), self._moment())

    def hold_state(self, shapes: Shapes) -> None:
        """The optimizer's state for the tensors that it updates on this rank."""
        self._updated_shapes = shapes
        self.add("optimizer", self.share.optimizer.state_bytes(shapes))

    def add_outside(self, size: int) -> None:
        """So many bytes more in memory that is no device's."""
        self._outside += size
        self.outside = max(self.outside, self._outside)

    def spike(self, part: str, size: float) -> None:
        """So many bytes more for a moment."""
        self.add(part, size)
        self.add(part, -size)

    def run(self, events: Sequence[Event]) -> None:
        """Replay a step whose micro-batches each are `events`."""
        self.start()
        share = self.share
        self.add("activations", share.sample_bytes * share.rows * share.accumulation)
        # Those between the first and the last are all alike.
        shown = range(min(share.accumulation, 3))
        for micro in shown:
            self.first, self.last = micro == 0, micro == shown[-1]
            alike = share.accumulation - len(shown) + 1
            self.overhead.times = 1 if self.first or self.last else alike
            self.micro_batch(events)
        self.overhead.times = 1
        self._phase, self._module = "update", ""
        self.on_update()

    def stages(self, events: Sequence[Event]) -> list[Sequence[Event]]:
        """A micro-batch's events, in parts that different ranks compute one after the other."""
        return [events]

    def run_bare(self) -> None:
        """What stands between the last backward and the update, of a number of parameters alone."""
        self.start()
        self._phase = "between backward and update"
        self.stand()

    def stand(self) -> None:
        """What a step's backward leaves, besides what is there at all times."""
        raise NotImplementedError

    def micro_batch(self, events: Sequence[Event]) -> None:
        """Replay one forward and backward."""
        self._phase = "forward"
        self.on_begin()
        for kind, name, size, _ in events:
            if kind == "+":
                self.add("activations", size)
            elif kind == "-":
                self.add("activations", -size)
            elif kind == "make":
                self.add(self._newborn(name), size)
            elif kind != "op":
                if kind == "grad":
                    self.add(self._newborn(name), -size)
                self._place(kind, name)
                getattr(self, f"on_{kind}")(name, size)
        self.on_end()

    def _newborn(self, weight: str) -> str:
        return self.newborn if self.first else "activations"

    def _place(self, kind: str, name: str) -> None:
        if kind in ("enter", "back"):
            self._module = name
            # A stage of a pipeline but the last sees no loss.
            self._phase = "backward" if kind == "back" else self._phase
        elif kind == "outputs":
            self._phase, self._module = "loss", ""
        elif kind == "loss":
            self._phase = "backward"

    def _moment(self) -> str:
        return f"{self._phase}, {self._module}" if self._module else self._phase

    def on_begin(self) -> None:
        """A micro-batch's forward begins."""

    def on_enter(self, module: str, size: int) -> None:
        """A module's forward begins."""

    def on_exit(self, module: str, size: int) -> None:
        """A module's forward is over."""

    def on_back(self, module: str, size: int) -> None:
        """A module's backward begins."""

    def on_done(self, module: str, size: int) -> None:
        """A module's backward has given its input's gradient."""

    def on_outputs(self, module: str, size: int) -> None:
        """The model has returned."""

    def on_loss(self, module: str, size: int) -> None:
        """The loss is there."""

    def on_grad(self, weight: str, size: int) -> None:
        """A weight's gradient is there: what becomes of it, where its own storage does not stay."""

    def on_end(self) -> None:
        """The micro-batch's backward is over."""

    def on_update(self) -> None:
        """Gradients are final: clip, and step."""
        self.add("optimizer", self.share.optimizer.step_bytes(self._updated_shapes))

    def updated(self) -> int:
        """Elements that this rank's optimizer updates."""
        return sum(elements for elements, _ in self._updated_shapes)
