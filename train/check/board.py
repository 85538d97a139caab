"""What nodes and ranks leave for each other in the store that they share."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import torch.distributed as dist

from train.failure import Failure

ASK_S = 0.05
"""How often the store is asked for what is awaited."""


class Board:
    """Words in a store, by the number of the node or rank that left them.

    Args:
        store: that all of them see.
    """

    def __init__(self, store: dist.Store) -> None:
        self._store = dist.PrefixStore("check", store)

    def say(self, rank: int, stage: str) -> None:
        """What a rank does next."""
        self._leave(f"stage/{rank}", stage)
        self._store.add("said", 1)

    def said(self) -> int:
        """How often anything has been said: it grows as long as ranks come on."""
        return int(self._store.add("said", 0))

    def stages(self, world_size: int) -> dict[int, str]:
        """What each rank did last."""
        return self._read("stage", range(world_size))

    def fail(self, failure: Failure) -> None:
        """How a rank failed that no controller watches."""
        self._leave(f"failed/{failure.rank}", vars(failure))

    def failures(self, world_size: int) -> list[Failure]:
        """How ranks failed."""
        return [Failure(**word) for word in self._read("failed", range(world_size)).values()]

    def hand_in(self, rank: int, result: dict[str, Any]) -> None:
        """What a rank has measured."""
        self._leave(f"result/{rank}", result)

    def results(self, world_size: int, timeout_s: float) -> list[dict[str, Any]]:
        """What all ranks have measured, by rank; fewer when some are not in by then."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = self._read("result", range(world_size))
            if len(found) == world_size or time.monotonic() > deadline:
                return [found[rank] for rank in sorted(found)]
            time.sleep(ASK_S)

    def _leave(self, key: str, word: Any) -> None:
        self._store.set(key, json.dumps(word))

    def _read(self, kind: str, numbers: Iterable[int]) -> dict[int, Any]:
        keys = {number: f"{kind}/{number}" for number in sorted(numbers)}
        return {
            number: json.loads(self._store.get(key))
            for number, key in keys.items()
            if self._store.check([key])
        }
