"""How far a cell's training loss is from the reference's, step by step and seed by seed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from train.compare.report.curves import Losses, Point

SAME = 1e-5
"""Relative difference up to which fp32 curves count as the same: a strategy may add in another
order, and does no other mathematics."""


@dataclass(frozen=True)
class Deviation:
    """A cell against the reference, at the steps that both recorded with the same seed.

    Attributes:
        signed: the cell's loss minus the reference's; the mean over seeds.
        relative: its size over that of the reference's loss; the largest over seeds.
    """

    steps: list[int]
    signed: list[float]
    relative: list[float]


def deviation(cell: Sequence[Losses], reference: Sequence[Losses]) -> Deviation:
    """The differences of training losses; empty where no seed is shared."""
    by_seed = {run.seed: {point.step: point for point in run.train} for run in reference}
    signed, relative = defaultdict(list), defaultdict(list)
    for run in cell:
        there = by_seed.get(run.seed, {})
        for point in run.train:
            if point.step in there:
                difference = point.loss - there[point.step].loss
                signed[point.step].append(difference)
                relative[point.step].append(_over(difference, there[point.step]))
    steps = sorted(signed)
    return Deviation(
        steps, [fmean(signed[step]) for step in steps], [_largest(relative[step]) for step in steps]
    )


def _over(difference: float, reference: Point) -> float:
    if difference == 0:
        return 0.0
    return abs(difference) / abs(reference.loss) if reference.loss else math.inf


def _largest(values: Sequence[float]) -> float:
    return math.nan if any(math.isnan(value) for value in values) else max(values)
