"""Runs that make one row: equal in their configs but for the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from train.compare.against import Reference
from train.compare.labels import labels
from train.compare.measures import Measures, measure
from train.compare.results import Result
from train.compare.varied import Facts, text


@dataclass(frozen=True)
class Alike:
    """The runs of a row, before it is held against another.

    Attributes:
        facts, measures: of each run, in the order in which they were given.
    """

    label: str
    facts: list[Facts]
    measures: list[Measures]

    @property
    def results(self) -> list[Result]:
        """The runs."""
        return [one.result for one in self.facts]

    @property
    def completed(self) -> list[int]:
        """The places of the runs that completed."""
        return [i for i, run in enumerate(self.results) if run.status == "completed"]

    @property
    def counted(self) -> list[int]:
        """The places of the runs that the row's numbers are over: all, if none completed."""
        return self.completed or [*range(len(self.facts))]

    def as_reference(self) -> Reference:
        """Its numbers for others to be held against."""
        return Reference(
            [self.facts[i].seed for i in self.counted], [self.measures[i] for i in self.counted]
        )


def alike(facts: Sequence[Facts], keys: Sequence[str]) -> list[Alike]:
    """Runs put together that are equal in `keys`, on as many ranks of the same kind.

    A run that was refused never knew its ranks: it stands with the first that are equal to it.
    """
    equal = [tuple(text(one.value(key)) for key in keys) for one in facts]
    places = [one.result.cell.get("cluster") for one in facts]
    first: dict[tuple[str, ...], str] = {}
    for same, place in zip(equal, places, strict=True):
        if place is not None:
            first.setdefault(same, place)
    found: dict[tuple[tuple[str, ...], str | None], list[Facts]] = {}
    for one, same, place in zip(facts, equal, places, strict=True):
        found.setdefault((same, place or first.get(same)), []).append(one)
    together = list(found.values())
    names = labels([some[0] for some in together], keys)
    return [
        Alike(name, some, [measure(one.result) for one in some])
        for name, some in zip(names, together, strict=True)
    ]
