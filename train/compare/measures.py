"""What one run measured, from its summary, and from its records where there is no summary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from train.compare.results import Result

Record = dict[str, Any]
Curve = dict[int, float]
"""A loss by step; nan where the record has null because it was not finite."""


@dataclass(frozen=True)
class Measures:
    """One run's numbers.

    Attributes:
        values: by name of `COLUMNS`, without those that need a reference; None where unknown.
        train, val: `train/loss` and `val/loss` by step.
    """

    values: dict[str, float | None]
    train: Curve
    val: Curve


def measure(result: Result) -> Measures:
    """Read a run's numbers."""
    records = result.records()
    training = [record for record in records if "train/loss" in record]
    train = _train_curve(training)
    val = {r["step"]: _number(r["val/loss"]) for r in records if "val/loss" in r}
    last = result.summary.get("last", {})
    best_step = min((s for s in val if not math.isnan(val[s])), key=val.__getitem__, default=None)
    peaks = [peak for peak in result.summary.get("peak_memory_bytes") or [] if peak is not None]
    rates = result.summary.get("throughput") or _rates(training)
    values: dict[str, float | None] = {
        "val_loss_last": _last(val, last.get("val/loss")),
        "val_loss_best": None if best_step is None else val[best_step],
        "val_loss_best_step": best_step,
        "train_loss_last": _last(train, last.get("train/loss")),
        "step_time_s": rates.get("step_time_s"),
        "samples_per_s": rates.get("samples_per_s"),
        "tokens_per_s": rates.get("tokens_per_s"),
        "peak_memory_bytes": max(peaks, default=None),
        "forecast_error": (result.summary.get("memory") or {}).get("error"),
        "data_wait_share": _waiting(training),
        "skipped_steps": _skipped(result, training),
        "wall_s": _wall(result, records),
        "steps": max([result.steps, *(record["step"] for record in records)]),
    }
    return Measures(values, train, val)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _train_curve(training: list[Record]) -> Curve:
    """Null stands for a loss that was not finite, and for steps that were all skipped: no loss."""
    curve = {}
    before = 0
    for record in training:
        skipped = record.get("skipped_steps") or 0
        if record["train/loss"] is not None or skipped == before:
            curve[record["step"]] = _number(record["train/loss"])
        before = skipped
    return curve


def _last(curve: Curve, in_summary: float | None) -> float | None:
    return curve[max(curve)] if curve else in_summary


def _spans(training: list[Record]) -> list[tuple[int, Record]]:
    """Records after the first, which holds the warm-up, each with its number of steps."""
    return [(now["step"] - before["step"], now) for before, now in pairwise(training)]


def _rates(training: list[Record]) -> dict[str, float | None]:
    """Of a run without a summary, as a summary has them: means without the first record."""
    spans = [(steps, r) for steps, r in _spans(training) if r.get("step_time_s")]
    seconds = sum(steps * record["step_time_s"] for steps, record in spans)
    steps = sum(steps for steps, _ in spans)
    if not steps or not seconds:
        return {}
    rates: dict[str, float | None] = {"step_time_s": seconds / steps}
    for name in ("samples_per_s", "tokens_per_s"):
        known = all(record.get(name) is not None for _, record in spans)
        total = sum(n * r["step_time_s"] * r[name] for n, r in spans) if known else 0.0
        rates[name] = total / seconds if known else None
    return rates


def _waiting(training: list[Record]) -> float | None:
    """The share of the time that rank 0 waited for data, over the whole run but its warm-up."""
    spans = [
        (steps * record["step_time_s"], record["data_wait_share"])
        for steps, record in _spans(training)
        if record.get("step_time_s") and record.get("data_wait_share") is not None
    ]
    seconds = sum(seconds for seconds, _ in spans)
    return sum(seconds * share for seconds, share in spans) / seconds if seconds else None


def _skipped(result: Result, training: list[Record]) -> float | None:
    told: float | None = result.summary.get("skipped_steps")
    if told is None and training:
        told = training[-1].get("skipped_steps")
    return told


def _wall(result: Result, records: list[Record]) -> float | None:
    """From the first start to the end, or to the last record of a run without one."""
    if result.started is None:
        return None
    start = datetime.fromisoformat(result.started).timestamp()
    if result.ended is not None:
        return datetime.fromisoformat(result.ended).timestamp() - start
    return records[-1]["time"] - start if records else None
