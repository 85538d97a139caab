"""Two records of the same run: where they first differ, and by how much at most."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.records import FILE

CLOCK = (
    *("time", "step_time_s", "samples_per_s", "tokens_per_s", "model_flops_per_s", "mfu"),
    *("data_wait_share", "val/time_s"),
)
"""Times and rates, which no two runs have in common."""

TOLERANCE = 1e-3
HALF_TOLERANCE = 2e-2
HALF_GRAD_NORM_TOLERANCE = 0.5
"""Relative differences that pass where the same bits are not to be expected: of a run that computes
in fp32; in half types; and there of a gradient norm, a single step's reading.

About ten times what another order of summation (another strategy) gave a small GPT in 30 steps, but
for the last, which came to 0.4; fp32 stayed below 1e-5 and has room for longer runs.
"""

Steps = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Spread:
    """How one metric differs between two records.

    Attributes:
        name: as in metrics.jsonl.
        first: the first step with a difference.
        step: the one with the largest.
        then, now: the values there; None where a record has none.
        relative: of that difference to the larger of both; infinite where only one has a number.
    """

    name: str
    first: int
    step: int
    then: float | None
    now: float | None
    relative: float

    def __str__(self) -> str:
        where = f"step {self.step}: {self.then} -> {self.now}"
        if math.isinf(self.relative):
            size = f"where one of them has no number ({where})"
            return f"{self.name}: differs from step {self.first} on, {size}"
        return (
            f"{self.name}: differs from step {self.first} on, at most by {self.relative:.2g} "
            f"(relative, {where})"
        )


def by_step(folder: Path) -> dict[int, dict[str, Any]]:
    """A run's record, what belongs to one step in one piece, without times and rates."""
    path = folder / FILE
    steps: dict[int, dict[str, Any]] = {}
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        if line.endswith(b"\n"):  # the last of a run that was killed may be torn
            record = json.loads(line)
            kept = {key: value for key, value in record.items() if key not in (*CLOCK, "step")}
            steps.setdefault(record["step"], {}).update(kept)
    return steps


def spreads(then: Steps, now: Steps) -> list[Spread]:
    """The metrics that differ in some step, in the order in which they first do.

    A number that only one record has differs, also from null.
    """
    found: dict[str, Spread] = {}
    for step in sorted({*then, *now}):
        one, other = then.get(step, {}), now.get(step, {})
        for name in dict.fromkeys([*one, *other]):
            if name in one and name in other and one[name] == other[name]:
                continue
            size = _relative(one.get(name), other.get(name))
            known = found.get(name)
            if known is None or size > known.relative:
                first = step if known is None else known.first
                found[name] = Spread(name, first, step, one.get(name), other.get(name), size)
    return sorted(found.values(), key=lambda spread: spread.first)


def _relative(one: float | None, other: float | None) -> float:
    if one is None or other is None:
        return math.inf
    return abs(one - other) / max(abs(one), abs(other))


def tolerance(compute: str | None, metric: str) -> float:
    """The relative difference of a metric that passes, by the type in which the run computed."""
    if compute == "float32":
        return TOLERANCE
    return HALF_GRAD_NORM_TOLERANCE if metric == "train/grad_norm" else HALF_TOLERANCE
