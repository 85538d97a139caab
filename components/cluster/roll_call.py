"""Who of those that are expected has come to the store where they meet."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from components.cluster.joined import Joined

if TYPE_CHECKING:
    import torch.distributed as dist

ASK_S = 0.05
"""How often the store is asked for what is awaited, at first."""

ASK_AT_LEAST_S = 1.0
"""And where that takes long."""

Told = dict[str, Any]
"""What somebody says who comes, as plain values."""


class Absent(Exception):
    """Somebody did not come in time, or cannot take part. The message is for the user."""


def here(store: dist.Store, number: int, **told: Any) -> None:
    """Let the others know that this one has come.

    Args:
        number: of the node or rank.
    """
    store.set(f"here/{number}", json.dumps(told))


def roll_call(
    store: dist.Store,
    count: int,
    timeout_s: float,
    enough: Callable[[], object] = lambda: False,
) -> dict[int, Told]:
    """What those said who have come, once all of `count` have, or the time is over.

    Args:
        enough: ends the wait early.
    """
    deadline = time.monotonic() + timeout_s
    found: dict[int, Told] = {}
    while True:
        for number in sorted({*range(count)} - {*found}):
            if store.check([f"here/{number}"]):
                found[number] = json.loads(store.get(f"here/{number}"))
        if len(found) == count or time.monotonic() > deadline or enough():
            return found
        time.sleep(ASK_S)


def missing(told: Iterable[int], count: int) -> list[int]:
    """Who did not answer."""
    return sorted({*range(count)} - {*told})


def in_words(numbers: list[int], one: str = "rank") -> str:
    """Ranks or nodes in short: `rank 3`, `ranks 0-3, 7`. Rising, without repeats."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    text = ", ".join("-".join(map(str, span)) for span in spans)
    return f"{one}{'s' if len(numbers) > 1 else ''} {text}"


def prepare_together(
    store: dist.Store, gang: Joined, prepare: Callable[[], None], start_timeout_s: float
) -> None:
    """What each rank does before it joins the others; returns when all have done it.

    Ranks whose files are not shared take their own time for it, and no time-out ends that: only
    whoever does not come at all is waited for no longer than `start_timeout_s`.

    Args:
        store: of all ranks of this attempt.
        gang: this rank's place among them.

    Raises:
        Absent: when ranks did not come, or one could not prepare.
    """
    deadline = time.monotonic() + start_timeout_s
    here(store, gang.rank)
    try:
        prepare()
    except BaseException as error:
        store.set("unprepared", f"rank {gang.rank} cannot begin: {type(error).__name__}: {error}")
        raise
    store.add("prepared", 1)
    pause = ASK_S
    while store.add("prepared", 0) < gang.world_size:
        if store.check(["unprepared"]):
            raise Absent(store.get("unprepared").decode())
        if time.monotonic() > deadline:
            _refuse_absent(store, gang, start_timeout_s)
            deadline = float("inf")
        time.sleep(pause)
        pause = min(1.5 * pause, ASK_AT_LEAST_S)


def _refuse_absent(store: dist.Store, gang: Joined, timeout_s: float) -> None:
    came = [*roll_call(store, gang.world_size, 0.0)]
    if absent := missing(came, gang.world_size):
        raise Absent(
            f"{in_words(absent)} did not come to {gang.host}:{gang.port} within {timeout_s:g} s "
            f"(cluster.start_timeout_s); {in_words(came)} did"
        )
