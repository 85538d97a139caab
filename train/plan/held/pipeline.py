"""Pipeline stages: some of the layers on each rank, and activations of several micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

from components.parallel.pipeline_stage import cut, stage_of
from train.plan.held.replicated import Replicated
from train.plan.holding import Holding, Peak, Share
from train.plan.trace import Event

CODE = 200
"""Python around a micro-batch on a stage, by operations that have nothing to do: measured on a CPU
with a model so small that nothing else took long."""


class Staged(Holding):
    """The stage that needs the most memory of all.

    Args:
        schedule: `gpipe` or `1f1b`.
        uses: all names of a weight by its first one, as `named_parameters` has them.
    """

    def __init__(self, share: Share, schedule: str, uses: dict[str, tuple[str, ...]]) -> None:
        super().__init__(share)
        self.schedule = schedule
        self.uses = uses
        self.stage = 0

    def run(self, events: Sequence[Event]) -> None:
        blocks, stages = len(self.share.facts.blocks), self.share.world_size
        forward, backward = cut_events(events, blocks, stages)
        let_go = _casts_let_go(events)
        holdings = []
        for number in range(stages):
            own = [
                w
                for w in self.share.facts.weights
                if number in {stage_of(name, blocks, stages) for name in self.uses[w.name]}
            ]
            ahead = self.share.accumulation
            if self.schedule == "1f1b":
                ahead = min(ahead, stages - number)
            holding = OneStage(self.share, {w.name for w in own}, ahead, number)
            holding.run([*_own_casts(forward[number], let_go), *backward[number]])
            holdings.append(holding)
        most = max(holdings, key=lambda holding: holding.peak.total)
        self.stage = holdings.index(most)
        self.most, self.now = most.most, most.now
        self.peak = Peak(
            most.peak.total, most.peak.parts, f"{most.peak.moment} (stage {self.stage})"
        )
        self._updated_shapes = most._updated_shapes
        self.overhead = most.overhead

    def stages(self, events: Sequence[Event]) -> list[Sequence[Event]]:
        cuts = cut_events(events, len(self.share.facts.blocks), self.share.world_size)
        return [[*forward, *backward] for forward, backward in zip(*cuts, strict=True)]


class OneStage(Replicated):
    """One stage, with so many micro-batches' activations at once.

    Args:
        own: the names of its weights.
        ahead: micro-batches that have gone forward when the first goes backward.
    """

    def __init__(self, share: Share, own: set[str], ahead: int, number: int) -> None:
        super().__init__(share)
        self.weights = [w for w in share.facts.weights if w.name in own]
        self.ahead = ahead
        self.number = number

    def start(self) -> None:
        self.add("params", sum(w.size for w in self.weights))
        blocks = cut(len(self.share.facts.blocks), self.share.world_size)[self.number]
        self.add("buffers", self.share.facts.buffers * len(blocks) / len(self.share.facts.blocks))
        trained = [(w.numel, len(w.shape)) for w in self.weights if w.trainable]
        self.hold_state(trained)

    def run(self, events: Sequence[Event]) -> None:
        """Forward of `ahead` micro-batches and the first one's backward; then a further one beside
        them, or else the second one's backward.
        """
        self.start()
        share = self.share
        self.overhead.runs(CODE * share.accumulation)
        edges = (self.number == 0) + (self.number == share.world_size - 1)
        self.add("activations", share.sample_bytes * share.rows * share.accumulation * edges / 2)
        # A buffer for each micro-batch at each end where something arrives.
        arriving = sum(size for kind, _, size, _ in events if kind == "arrive")
        self.add("strategy_buffers", arriving * share.accumulation)
        forward, backward = _halves(events)
        saved = sum(
            size if kind == "+" else -size for kind, _, size, _ in forward if kind in ("+", "-")
        )
        plain = [*forward, *backward]
        self.add("activations", saved * (self.ahead - 1))
        self.micro_batch(plain)
        self.overhead.times = share.accumulation - 1
        if share.accumulation > self.ahead:
            self.first = False
            self.add("activations", self._let_go_late(events))
            self.micro_batch(plain)
        elif share.accumulation > 1:
            self.first = False
            self.micro_batch(backward)
        self._phase, self._module = "update", ""
        self.on_update()

    def _let_go_late(self, events: Sequence[Event]) -> int:
        """What an earlier micro-batch has sent or returned, and what holds on to it (torch's
        schedules, their last sends) until the next one has sent or returned the same.

        Where forwards and backwards alternate: its input's gradient, but on the first stage; from
        the second turn on its output too, but on the last stage, which has its logits.
        """
        first, last = self.number == 0, self.number == self.share.world_size - 1
        sizes = [size for kind, _, size, _ in events if kind == "arrive"]
        held = 0 if first else sizes[0]
        if last:
            at = next((at for at, event in enumerate(events) if event[0] == "outputs"), 0)
            held += _last_made(events, at) if at else 0
        elif self.share.accumulation > self.ahead + 1:
            held += sizes[-1]
        return held


def _halves(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """A micro-batch's forward and backward, without what only the schedule knows of."""
    turn = next((at for at, event in enumerate(events) if event[0] == "turn"), len(events))
    return [event for event in events[:turn] if event[0] != "arrive"], list(events[turn + 1 :])


def cut_events(
    events: Sequence[Event], blocks: int, stages: int
) -> tuple[list[list[Event]], list[list[Event]]]:
    """Each stage's forward and backward; `turn` parts them, `arrive` says what is received."""
    owned = cut(blocks, stages)
    begins = [0] + [_at(events, "enter", own[0]) for own in owned[1:]]
    loss = next(at for at, event in enumerate(events) if event[0] == "loss")
    backs = [_at(events, "back", own[-1]) for own in owned[:-1]] + [loss]
    forward, backward = [], []
    for stage in range(stages):
        end = begins[stage + 1] if stage + 1 < stages else loss
        hidden = _last_made(events, begins[stage]) if stage else 0
        leaving = _last_made(events, begins[stage + 1]) if stage + 1 < stages else 0
        received = [("arrive", "", size, 0.0) for size in (hidden, leaving) if size]
        forward.append([*events[begins[stage] : end], *received, ("turn", "", 0, 0.0)])
        until = backs[stage - 1] if stage else len(events)
        backward.append(list(events[backs[stage] : until]))
    return forward, backward


def _casts_let_go(events: Sequence[Event]) -> set[str]:
    """The weights whose half copies nothing keeps when autocast ends, with the forward.

    With activation checkpointing it is autocast alone that holds them: a whole model's in the
    trace, a stage's in a pipeline.
    """
    end = next((at for at, event in enumerate(events) if event[0] == "outputs"), 0)
    return {name for kind, name, _, _ in events[:end] if kind == "-" and name}


def _own_casts(events: Sequence[Event], let_go: set[str]) -> list[Event]:
    """A stage's forward, at whose end its own copies of weights go, and no other's."""
    made = {name: size for kind, name, size, _ in events if kind == "+" and name in let_go}
    *plain, turn = [e for e in events if e[0] != "-" or e[1] not in let_go or e[1] in made]
    gone = {name for kind, name, _, _ in plain if kind == "-"}
    late = [("-", name, size, 0.0) for name, size in made.items() if name not in gone]
    return [*plain, *late, turn]


def _at(events: Sequence[Event], kind: str, block: int) -> int:
    name = f"blocks.{block}"
    return next(at for at, event in enumerate(events) if event[:2] == (kind, name))


def _last_made(events: Sequence[Event], position: int) -> int:
    """Bytes of the tensor that was made last: a block's output, when its forward is over."""
    return next(size for kind, _, size, _ in reversed(events[:position]) if kind == "+")


def hidden_bytes(events: Sequence[Event]) -> int:
    """Bytes of what the first block hands to the second; 0 without two blocks."""
    mark = ("enter", "blocks.1")
    at = next((at for at, event in enumerate(events) if event[:2] == mark), None)
    return _last_made(events, at) if at is not None else 0
