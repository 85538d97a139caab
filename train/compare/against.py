"""A run's numbers held against those of the reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from train.compare.measures import Curve, Measures
from train.compare.rows import over_runs


@dataclass(frozen=True)
class Reference:
    """The runs that others are compared with.

    Attributes:
        seeds: of each run, as text.
        runs: their numbers.
    """

    seeds: Sequence[str]
    runs: Sequence[Measures]

    def held_against(self, seed: str, own: Measures) -> dict[str, float | None]:
        """The columns of a run that take a reference."""
        return {
            "loss_difference": self.loss_difference(seed, own),
            "curve_difference": self.curve_difference(seed, own),
            "speed_up": self.speed_up(own),
        }

    def speed_up(self, own: Measures) -> float | None:
        """How many times the reference's samples per second."""
        theirs = over_runs(one.values["samples_per_s"] for one in self.runs).mean
        mine = own.values["samples_per_s"]
        return mine / theirs if mine is not None and theirs else None

    def loss_difference(self, seed: str, own: Measures) -> float | None:
        """Own loss minus the reference's at the last step that both have.

        It is the validation loss where both have one, else the training loss; that of the same
        seed, or the mean of all where there is none of the same.
        """
        partners = self._same_seed(seed) or self.runs
        return over_runs(_last_difference(own, one) for one in partners).mean

    def curve_difference(self, seed: str, own: Measures) -> float | None:
        """Largest relative difference of the training loss at equal steps, with the same seed."""
        apart = [_apart(own.train, one.train) for one in self._same_seed(seed)]
        return largest(number for some in apart for number in some)

    def _same_seed(self, seed: str) -> list[Measures]:
        return [run for known, run in zip(self.seeds, self.runs, strict=True) if known == seed]


def largest(numbers: Iterable[float | None]) -> float | None:
    """The largest of what is known; nan if one of them is."""
    known = [number for number in numbers if number is not None]
    if any(math.isnan(number) for number in known):
        return math.nan
    return max(known, default=None)


def _last_difference(own: Measures, other: Measures) -> float | None:
    for mine, theirs in ((own.val, other.val), (own.train, other.train)):
        if steps := mine.keys() & theirs.keys():
            return mine[max(steps)] - theirs[max(steps)]
    return None


def _apart(own: Curve, other: Curve) -> list[float]:
    """Relative differences by step, of the steps that both have."""
    return [_relative(own[step], other[step]) for step in own.keys() & other.keys()]


def _relative(mine: float, theirs: float) -> float:
    if mine == theirs:
        return 0.0
    return abs(mine - theirs) / abs(theirs) if theirs else math.inf
