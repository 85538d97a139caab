"""A micro-batch's events at any number of samples, from traces of two numbers."""

from __future__ import annotations

from collections.abc import Callable

from train.plan.trace import Event

FEW, MORE = 2, 3
"""Samples that are traced. One alone is special: what is cut by samples is then in one piece, and
is not copied where more would be."""


class Timeline:
    """What one micro-batch of any size makes, keeps and computes.

    Bytes and FLOP of each event are linear in the samples: a part that does not depend on them
    (half copies of weights) and a part for each. So two traces tell of all but one sample.

    Args:
        traced: the events of a micro-batch of so many samples.
    """

    def __init__(self, traced: Callable[[int], list[Event]]) -> None:
        self._traced = traced
        self._known = {rows: traced(rows) for rows in (FEW, MORE)}
        few, more = self._known[FEW], self._known[MORE]
        # Where a model does other things for few samples than for more, each size is traced.
        self._linear = [event[:2] for event in few] == [event[:2] for event in more]

    def at(self, rows: int) -> list[Event]:
        """The events of a micro-batch of `rows` samples."""
        if rows in self._known:
            return self._known[rows]
        if rows < FEW or not self._linear:
            self._known[rows] = self._traced(rows)
            return self._known[rows]
        by = rows - FEW
        return [
            (kind, name, size + by * (size2 - size), flop + by * (flop2 - flop))
            for (kind, name, size, flop), (_, _, size2, flop2) in zip(
                self._known[FEW], self._known[MORE], strict=True
            )
        ]
