"""How far a rank's clock is from rank 0's, by messages there and back."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist

from components.cluster.control import Control

TRIPS = 20


def time_offset(control: Control) -> tuple[float, float]:
    """This rank's clock minus rank 0's, and how uncertain that is; both in seconds. Collective."""
    ranks, own = control.ranks, (0.0, 0.0)
    for rank in range(1, ranks.world_size):
        if ranks.main:
            _answer(control, rank)
        elif ranks.rank == rank:
            own = offset([_ask(control) for _ in range(TRIPS)])
    return own


def offset(trips: Sequence[tuple[int, int, int]]) -> tuple[float, float]:
    """The offset of the asking clock and its uncertainty, seconds.

    That is Cristian's rule: the answer was given at some time between question and answer, so at
    their middle, half the shortest trip at most beside it.

    Args:
        trips: for each when it was asked, what the other clock said, and when that arrived; ns.
    """
    asked, said, heard = min(trips, key=lambda trip: trip[2] - trip[0])
    return ((asked + heard) / 2 - said) / 1e9, (heard - asked) / 2e9


def _ask(control: Control) -> tuple[int, int, int]:
    word = torch.zeros(1, dtype=torch.int64)
    asked = time.time_ns()
    dist.send(word, 0, group=control.group)
    dist.recv(word, 0, group=control.group)
    heard = time.time_ns()
    return asked, int(word.item()), heard


def _answer(control: Control, rank: int) -> None:
    word = torch.zeros(1, dtype=torch.int64)
    for _ in range(TRIPS):
        dist.recv(word, rank, group=control.group)
        word.fill_(time.time_ns())
        dist.send(word, rank, group=control.group)
