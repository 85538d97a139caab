"""A micro-batch's events at any number of samples, from traces of two numbers."""

from __future__ import annotations

from collections.abc import Callable

from train.plan.trace import Event

FEW, MORE = 2, 3
"""Samples that are traced. One alone is special: what is cut by samples is then in one piece, and
is not copied where more would be."""

CHECKED = 7
"""Samples of the trace that shows whether the others tell of it."""


class Timeline:
    """What one micro-batch of any size makes, keeps and computes.

    Bytes and FLOP of each event are linear in the samples: a part that does not depend on them
    (half copies of weights) and a part for each. So two traces tell of all but one sample, once a
    third has shown that it is so: of a model that compares samples with each other every number
    is traced. The first that is asked for is traced anyhow: most runs ask for no other.

    Args:
        traced: the events of a micro-batch of so many samples.
    """

    def __init__(self, traced: Callable[[int], list[Event]]) -> None:
        self._traced = traced
        self._known: dict[int, list[Event]] = {}
        self._straight: bool | None = None

    def at(self, rows: int) -> list[Event]:
        """The events of a micro-batch of `rows` samples."""
        if rows not in self._known and (not self._known or rows < FEW or not self._linear()):
            self._known[rows] = self._traced(rows)
        if rows in self._known:
            return self._known[rows]
        return self._between(rows)

    def _between(self, rows: int) -> list[Event]:
        by = rows - FEW
        return [
            (kind, name, size + by * (size2 - size), flop + by * (flop2 - flop))
            for (kind, name, size, flop), (_, _, size2, flop2) in zip(
                self._known[FEW], self._known[MORE], strict=True
            )
        ]

    def _linear(self) -> bool:
        """Whether a model does the same things for few samples as for more, in proportion."""
        if self._straight is None:
            for rows in (FEW, MORE, CHECKED):
                if rows not in self._known:
                    self._known[rows] = self._traced(rows)
            few, more, third = (self._known[rows] for rows in (FEW, MORE, CHECKED))
            alike = [e[:2] for e in few] == [e[:2] for e in more] == [e[:2] for e in third]
            told = self._between(CHECKED) if alike else []
            self._straight = alike and [e[2] for e in told] == [e[2] for e in third]
        return self._straight
