"""A micro-batch's events at any number of samples, from traces of one and of two."""

from __future__ import annotations

from collections.abc import Callable

from train.plan.trace import Event


class Timeline:
    """What one micro-batch of any size makes, keeps and computes.

    Bytes and FLOP of each event are linear in the samples: a part that does not depend on them
    (half copies of weights) and a part for each. So two traces tell of all.

    Args:
        traced: the events of a micro-batch of so many samples.
    """

    def __init__(self, traced: Callable[[int], list[Event]]) -> None:
        self._traced = traced
        self._known = {rows: traced(rows) for rows in (1, 2)}
        one, two = self._known[1], self._known[2]
        # Where a model does other things for one sample than for two, each size is traced.
        self._linear = [event[:2] for event in one] == [event[:2] for event in two]

    def at(self, rows: int) -> list[Event]:
        """The events of a micro-batch of `rows` samples."""
        if rows in self._known:
            return self._known[rows]
        if not self._linear:
            self._known[rows] = self._traced(rows)
            return self._known[rows]
        more = rows - 1
        return [
            (kind, name, size + more * (size2 - size), flop + more * (flop2 - flop))
            for (kind, name, size, flop), (_, _, size2, flop2) in zip(
                self._known[1], self._known[2], strict=True
            )
        ]
