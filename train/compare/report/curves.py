"""A cell's losses over its run: one curve for all of its seeds, with the range that they span."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Any

from train.compare.results import Result

TRAIN, VALIDATION = "train/loss", "val/loss"


@dataclass(frozen=True)
class Point:
    """One record of a loss: NaN where it was not finite.

    Attributes:
        samples: consumed so far.
        tokens: consumed so far; None where samples are not sequences.
        seconds: since the start of the run.
    """

    step: int
    loss: float
    samples: float | None
    tokens: float | None
    seconds: float


@dataclass(frozen=True)
class Losses:
    """The losses of one run."""

    seed: Any
    train: list[Point] = field(default_factory=list)
    validation: list[Point] = field(default_factory=list)


@dataclass(frozen=True)
class Curve:
    """Means over the seeds of a cell, at each step that any of them recorded.

    Attributes:
        low, high: the range over the seeds; the mean again where there is one.
    """

    points: list[Point]
    low: list[float]
    high: list[float]


def losses(result: Result) -> Losses:
    """Both losses of a run, from its record."""
    records = result.records()
    consumed = [record for record in records if "samples" in record]
    samples = {record["step"]: record["samples"] for record in consumed}
    per_step = _last_ratio(consumed, "samples", "step")
    tokens_per_sample = _last_ratio(consumed, "tokens_per_s", "samples_per_s")
    start = _start(result, records)

    def points(key: str) -> list[Point]:
        found = []
        for record in records:
            if key not in record:
                continue
            step, value = record["step"], record[key]
            count = samples.get(step, None if per_step is None else per_step * step)
            tokens = None
            if count is not None and tokens_per_sample is not None:
                tokens = count * tokens_per_sample
            seconds = record.get("time", start) - start
            found.append(Point(step, _number(value), count, tokens, seconds))
        return found

    seed = result.config.get("seed", result.provenance.get("seed"))
    return Losses(seed, points(TRAIN), points(VALIDATION))


def _start(result: Result, records: Sequence[Mapping[str, Any]]) -> float:
    if result.started is not None:
        return datetime.fromisoformat(result.started).timestamp()
    return float(records[0].get("time", 0.0)) if records else 0.0


def _last_ratio(records: Sequence[Mapping[str, Any]], over: str, under: str) -> float | None:
    for record in reversed(records):
        if record.get(over) and record.get(under):
            return float(record[over]) / float(record[under])
    return None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def joined(curves: Sequence[Sequence[Point]]) -> Curve:
    """One curve of the seeds' curves. A loss that was not finite for one seed is not for all."""
    if len(curves) == 1:
        values = [point.loss for point in curves[0]]
        return Curve(list(curves[0]), values, values)
    at: dict[int, list[Point]] = defaultdict(list)
    for curve in curves:
        for point in curve:
            at[point.step].append(point)
    together = [at[step] for step in sorted(at)]
    return Curve(
        [_mean_point(here) for here in together],
        [_bound(min, here) for here in together],
        [_bound(max, here) for here in together],
    )


def _mean_point(here: Sequence[Point]) -> Point:
    return Point(
        here[0].step,
        fmean(point.loss for point in here),
        _mean([point.samples for point in here]),
        _mean([point.tokens for point in here]),
        fmean(point.seconds for point in here),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _bound(choose: Callable[[list[float]], float], points: Sequence[Point]) -> float:
    values = [point.loss for point in points]
    return math.nan if any(map(math.isnan, values)) else choose(values)
