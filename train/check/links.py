"""Each pair of neighbours by itself: a message there and back, while the others wait."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from components.cluster.control import Control
from train.check.limits import Limits
from train.check.timing import seconds_per_call

SMALL_TRIPS = 50
LARGE_TRIPS = 7
SMALL_BYTES = 8


def neighbours(world_size: int) -> Iterator[tuple[int, int]]:
    """The pairs of a ring; two ranks are one pair, and one rank none."""
    for rank in range(world_size if world_size > 2 else world_size - 1):
        yield rank, (rank + 1) % world_size


def time_links(
    control: Control, limits: Limits, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The links that begin at this rank: their ranks, latency and bandwidth one way. Collective.

    The latency is half the shortest trip of a few bytes, the bandwidth comes of half the
    median trip of a large message.
    """
    ranks, found = control.ranks, list[dict[str, Any]]()
    for pair in neighbours(ranks.world_size):
        say(f"link {pair[0]}-{pair[1]}")
        control.highest(0)
        if ranks.rank not in pair:
            continue
        small = _trips(control, pair, SMALL_BYTES, SMALL_TRIPS)
        large = _trips(control, pair, limits.link_bytes, LARGE_TRIPS)
        if ranks.rank == pair[0]:
            found.append(
                {
                    "ranks": list(pair),
                    "latency_s": min(small) / 2,
                    "bytes": limits.link_bytes,
                    "bytes_per_s": limits.link_bytes / (statistics.median(large) / 2),
                }
            )
    return found


def _trips(control: Control, pair: tuple[int, int], size: int, trips: int) -> list[float]:
    """Seconds of each trip there and back but the first, which may have to connect."""
    device, first = control.ranks.device, control.ranks.rank == pair[0]
    message = torch.zeros(size, dtype=torch.uint8, device=device)
    other = pair[1] if first else pair[0]

    def trip() -> None:
        if first:
            dist.send(message, other)
        dist.recv(message, other)
        if not first:
            dist.send(message, other)

    return [seconds_per_call(trip, device) for _ in range(trips + 1)][1:]
