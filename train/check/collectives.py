"""Collectives and the ring of neighbours, timed by size of the message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from components.cluster.control import Control
from components.cluster.ranks import Ranks
from train.check.limits import Limits
from train.check.timing import seconds_per_call

MOST_CALLS = 200
"""In one repeat."""


def _all_reduce(ranks: Ranks, numbers: int) -> Callable[[], object]:
    whole = torch.zeros(numbers, device=ranks.device)
    return lambda: dist.all_reduce(whole)


def _all_gather(ranks: Ranks, numbers: int) -> Callable[[], object]:
    whole = torch.zeros(numbers, device=ranks.device)
    part = torch.zeros(numbers // ranks.world_size, device=ranks.device)
    return lambda: dist.all_gather_single(whole, part)


def _reduce_scatter(ranks: Ranks, numbers: int) -> Callable[[], object]:
    whole = torch.zeros(numbers, device=ranks.device)
    part = torch.zeros(numbers // ranks.world_size, device=ranks.device)
    return lambda: dist.reduce_scatter_single(part, whole)


def _broadcast(ranks: Ranks, numbers: int) -> Callable[[], object]:
    whole = torch.zeros(numbers, device=ranks.device)
    return lambda: dist.broadcast(whole, src=0)


def _ring(ranks: Ranks, numbers: int) -> Callable[[], object]:
    to, fro = torch.zeros(2, numbers, device=ranks.device)
    right, left = (ranks.rank + 1) % ranks.world_size, (ranks.rank - 1) % ranks.world_size

    def send_and_receive() -> None:
        both = [dist.P2POp(dist.isend, to, right), dist.P2POp(dist.irecv, fro, left)]
        for work in dist.batch_isend_irecv(both):
            work.wait()

    return send_and_receive


COLLECTIVES: dict[str, Callable[[Ranks, int], Callable[[], object]]] = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "ring": _ring,
}
"""What is timed, by its name; `ring` sends to the right and receives from the left at once."""


def time_collectives(
    control: Control, limits: Limits, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Seconds of one call by name and size, one for each repeat, as this rank saw them. Collective.

    An entry has `name`, `bytes`, `calls` of a repeat and `seconds`; or `name` and `not_offered`,
    why the backend does not have it. The bytes are those of the whole message: what all ranks
    hold of it together in an all-gather or reduce-scatter.

    Args:
        say: is told what comes next.
    """
    return [
        entry
        for name, make in COLLECTIVES.items()
        for entry in _sizes(name, make, control, limits, say)
    ]


def _sizes(
    name: str,
    make: Callable[[Ranks, int], Callable[[], object]],
    control: Control,
    limits: Limits,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    ranks, entries = control.ranks, list[dict[str, Any]]()
    known: list[tuple[int, float]] = []  # sizes and the slowest rank's seconds
    for size in limits.sizes:
        if expected_s(known, size) * (limits.repeats + 2) > limits.size_s:
            break  # all ranks alike, as they know the same times
        numbers = max(1, size // (4 * ranks.world_size)) * ranks.world_size
        say(f"{name} of {4 * numbers} bytes")
        try:
            call = make(ranks, numbers)
            seconds_per_call(call, ranks.device)
        except RuntimeError as error:
            if not not_offered(error):
                raise
            return [{"name": name, "not_offered": str(error).splitlines()[0]}]
        (slowest_ns,) = control.highest(round(seconds_per_call(call, ranks.device) * 1e9))
        known.append((size, slowest_ns / 1e9))
        calls = max(1, min(MOST_CALLS, round(limits.repeat_s * 1e9 / max(slowest_ns, 1))))
        seconds = []
        for _ in range(limits.repeats):
            control.highest(0)
            seconds.append(seconds_per_call(call, ranks.device, calls))
        entries.append({"name": name, "bytes": 4 * numbers, "calls": calls, "seconds": seconds})
    return entries


def expected_s(known: Sequence[tuple[int, float]], size: int) -> float:
    """Seconds that a call should take: a latency and a time for each byte, by the last two sizes.

    Args:
        known: sizes in bytes and their seconds, rising; of fewer than two nothing follows: 0.
    """
    if len(known) < 2:
        return 0.0
    (small, short), (large, long) = known[-2:]
    return long + max(0.0, long - short) / (large - small) * (size - large)


def not_offered(error: RuntimeError) -> bool:
    """Whether a backend says that it does not have a collective, rather than that it failed."""
    text = str(error).lower()
    return any(words in text for words in ("not support", "unsupported", "not implement"))
