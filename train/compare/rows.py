"""The rows of a comparison: runs that are equal but for their seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from train.compare.results import Result

COLUMNS = (
    "val_loss_last",
    "val_loss_best",
    "val_loss_best_step",
    "train_loss_last",
    "loss_difference",
    "curve_difference",
    "step_time_s",
    "samples_per_s",
    "tokens_per_s",
    "speed_up",
    "peak_memory_bytes",
    "forecast_error",
    "data_wait_share",
    "skipped_steps",
    "wall_s",
    "steps",
)
"""The keys of `Row.values`. What each holds: docs/compare.md."""


@dataclass(frozen=True)
class Value:
    """A number of a row, over its runs.

    Attributes:
        mean: None where it is not known; may be nan or infinite.
        spread: sample standard deviation (divisor n - 1); None for a single run.
    """

    mean: float | None
    spread: float | None = None


@dataclass(frozen=True)
class Row:
    """Runs that are equal but for their seed.

    Attributes:
        label: short, of the keys in which rows differ, as in `fsdp bf16 lr=0.01`.
        results: the runs, in the order in which they were given.
        status: that of all, or of the one if there is one; `2 of 3 completed` where they differ.
        values: by name of `COLUMNS`. Over the runs that completed; over all if none did.
        is_reference: whether differences and speed-ups are to this row.
        note: why it is no fair comparison with the reference; empty if it is one.
        differences: the values of the keys in `Comparison.varied`, but of the seed.
        each: the numbers of each of `results`, by name of `COLUMNS`.
    """

    label: str
    results: list[Result]
    status: str
    values: dict[str, Value]
    is_reference: bool = False
    note: str = ""
    differences: dict[str, Any] = field(default_factory=dict)
    each: list[dict[str, float | None]] = field(default_factory=list)


def over_runs(numbers: Iterable[float | None]) -> Value:
    """Mean and spread of what is known. One nan or infinity makes the mean so."""
    known = [number for number in numbers if number is not None]
    if not known:
        return Value(None)
    if not all(map(math.isfinite, known)):
        return Value(sum(known) / len(known), math.nan if len(known) > 1 else None)
    return Value(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)


def status_of(results: list[Result]) -> str:
    """How the runs of a row ended, in a word or two."""
    words = {result.status for result in results}
    if len(words) == 1:
        return words.pop()
    completed = sum(result.status == "completed" for result in results)
    return f"{completed} of {len(results)} completed"
