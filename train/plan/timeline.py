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
    (half copies of weights) and a part for each. So two traces tell of all but one sample. The
    first number that is asked for is traced itself: most runs ask for no other.

    Args:
        traced: the events of a micro-batch of so many samples.
    """

    def __init__(self, traced: Callable[[int], list[Event]]) -> None:
        self._traced = traced
        self._known: dict[int, list[Event]] = {}

    def at(self, rows: int) -> list[Event]:
        """The events of a micro-batch of `rows` samples."""
        if rows not in self._known and (not self._known or rows < FEW or not self._linear()):
            self._known[rows] = self._traced(rows)
        if rows in self._known:
            return self._known[rows]
        by = rows - FEW
        return [
            (kind, name, size + by * (size2 - size), flop + by * (flop2 - flop))
            for (kind, name, size, flop), (_, _, size2, flop2) in zip(
                self._known[FEW], self._known[MORE], strict=True
            )
        ]

    def _linear(self) -> bool:
        """Whether a model does the same things for few samples as for more."""
        for rows in (FEW, MORE):
            if rows not in self._known:
                self._known[rows] = self._traced(rows)
        return [e[:2] for e in self._known[FEW]] == [e[:2] for e in self._known[MORE]]
