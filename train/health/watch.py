"""A controller's eye on its node's ranks: whether they come on, and where they are when not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from train.health.sight import Sight, look, place_path, places, with_stacks
from train.health.stacks import clear

FIRST_STEP = 10
"""The first step of an attempt may take so many times as long: it compiles, and workers start."""


class Stalled(Exception):
    """No rank of this node has come on for too long."""


class Watch:
    """The ranks of one attempt on this node.

    Args:
        folder: the run's.
        ranks: this node's.
        stall_s: how long all of them may stay in one phase, seconds; None watches nothing.

    Attributes:
        sights: what was seen when something was wrong; empty as long as nothing was.
    """

    def __init__(self, folder: Path, ranks: Sequence[int], stall_s: float | None) -> None:
        self.folder = folder
        self.ranks = ranks
        self.stall_s = stall_s
        self.sights: list[Sight] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        """While the ranks run: what others have left is not taken for theirs, nothing is left."""
        self._clear()
        try:
            yield
        finally:
            self._clear()

    def check(self) -> None:
        """Look whether the ranks come on.

        Until all have begun to train, and so while data are prepared or a model is built, nothing
        is asked of them.

        Raises:
            Stalled: when none has for too long; their stacks are taken by then.
        """
        if self.stall_s is None:
            return
        seen = places(self.folder, self.ranks)
        if len(seen) < len(self.ranks) or any(one.phase == "start" for one in seen.values()):
            return
        limit = self.stall_s * (1 if all(one.warm for one in seen.values()) else FIRST_STEP)
        if time.monotonic() - max(one.since for one in seen.values()) > limit:
            self.look()
            raise Stalled

    def look(self) -> None:
        """Take down where the ranks are now, with their stacks."""
        self.sights = with_stacks(self.folder, look(self.folder, self.ranks))

    def _clear(self) -> None:
        for rank in self.ranks:
            place_path(self.folder, rank).unlink(missing_ok=True)
            clear(self.folder, rank)
