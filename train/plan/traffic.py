"""What a step sends, by collective, and how long that takes at the least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from components.device import Device
from train.plan.holding import Share

FP32 = 4
MIB = 2**20


@dataclass(frozen=True)
class Message:
    """The messages of one collective in a step, put together.

    Attributes:
        collective: its name.
        size: bytes of the whole tensors, as a program hands them over.
        ranks: that take part.
        reach: consecutive ranks among which these lie; None for as many as there are.
        hidden: whether it runs while the ranks compute.
        calls: so many messages it is cut into.
    """

    collective: str
    size: int
    ranks: int
    reach: int | None = None
    hidden: bool = True
    calls: int = 1

    @property
    def sent(self) -> float:
        """Bytes that each rank has to send, at the least."""
        return self.size * _sent(self.collective, self.ranks)

    def seconds(self, device: Device, per_node: int) -> float:
        """How long the slowest link takes for that; as it was measured, where it was."""
        known = device.collectives.get(self.collective)
        if known is not None:
            more = _sent(self.collective, self.ranks) / _sent(self.collective, known.ranks)
            return more * self.calls * known.seconds(self.size / self.calls)
        reach = self.reach or self.ranks
        if reach <= per_node:
            return self.sent / device.link_bytes_per_s
        # NCCL's rings leave a node by the adapters of all its ranks at once.
        members = 1 if self.collective == "send" else max(1, per_node * self.ranks // reach)
        rings = members * device.network_bytes_per_s
        return self.sent / min(device.link_bytes_per_s, rings)


def latency(collective: str, device: Device) -> float:
    """Seconds of a call that sends next to nothing; 0 where none was measured."""
    known = device.collectives.get(collective)
    return known.seconds(0) if known is not None else 0.0


def _sent(collective: str, ranks: int) -> float:
    """What each of so many ranks sends of a message, at the least."""
    share = (ranks - 1) / ranks
    factors = {"all-reduce": 2 * share, "all-gather": share, "reduce-scatter": share}
    return factors.get(collective, 1.0)


def of_ddp(ddp: Any, share: Share, arriving: int) -> list[Message]:
    """Gradients, once a step."""
    return _some(Message("all-reduce", FP32 * share.facts.trainable, share.world_size))


def of_fsdp(fsdp: Any, share: Share, arriving: int) -> list[Message]:
    """Weights in each forward and backward; gradients once."""
    facts, shards = share.facts, share.world_size // fsdp.replicate
    times = (2 if fsdp.reshard_after_forward else 1) * share.accumulation
    gathered = times * share.compute_bytes * facts.parameters
    return _some(
        Message("all-gather", gathered, shards),
        Message("reduce-scatter", FP32 * facts.trainable, shards),
        # Replicas lie a row of shards apart.
        Message("all-reduce", FP32 * facts.trainable // shards, fsdp.replicate, share.world_size),
    )


def of_zero(zero: Any, share: Share, arriving: int) -> list[Message]:
    """Stages 1 and 2: gradients are all-reduced, updated weights gathered. Stage 3: as FSDP."""
    facts, world, stage = share.facts, share.world_size, zero.options.stage
    if stage == 3:
        times = 2 * share.accumulation
        gathered, reduced = times * share.compute_bytes * facts.parameters, FP32 * facts.trainable
        return _some(
            Message("all-gather", gathered, world),
            Message("reduce-scatter", share.accumulation * reduced, world),
        )
    times = share.accumulation if stage == 2 else 1
    return _some(
        # DeepSpeed overlaps the reduction of these stages only where told to.
        Message("all-reduce", times * FP32 * facts.trainable, world, hidden=False),
        Message("all-gather", share.compute_bytes * facts.trainable, world, hidden=False),
    )


def of_pipeline(pipeline: Any, share: Share, arriving: int) -> list[Message]:
    """Each micro-batch's hidden state to the next stage, and its gradient back."""
    messages = 2 * share.accumulation
    return _some(
        Message("send", messages * arriving, share.world_size, hidden=False, calls=messages)
    )


def _some(*messages: Message) -> list[Message]:
    return [message for message in messages if message.ranks > 1 and message.size]
