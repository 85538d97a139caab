"""The columns of the page's table: what each is called, how it is written, which end is good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from train.compare.report import numbers
from train.compare.report.numbers import Scale

Good = Literal["low", "high"] | None


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: of `Row.values`.
        title: the head of the column.
        explanation: what it holds, in a sentence.
        good: the end of the range that is better; None where neither is.
        scale: how to write its numbers, from all of them.
    """

    key: str
    title: str
    explanation: str
    good: Good
    scale: Callable[[Sequence[float]], Scale]


def _always(scale: Scale) -> Callable[[Sequence[float]], Scale]:
    return lambda values: scale


COLUMNS = (
    Column(
        "val_loss_last",
        "val loss",
        "Validation loss after the last step",
        "low",
        _always(numbers.LOSS),
    ),
    Column(
        "val_loss_best",
        "best val loss",
        "Lowest validation loss of the run",
        "low",
        _always(numbers.LOSS),
    ),
    Column(
        "val_loss_best_step",
        "at step",
        "Step of the lowest validation loss",
        None,
        _always(numbers.WHOLE),
    ),
    Column(
        "train_loss_last",
        "train loss",
        "Last record of the training loss",
        "low",
        _always(numbers.LOSS),
    ),
    Column(
        "loss_difference",
        "Δ loss",
        "Final loss minus the reference's, of the same seeds where there are some",
        None,
        _always(numbers.SIGNED),
    ),
    Column(
        "curve_difference",
        "curve Δ",
        "Largest relative difference of the training loss to the reference's at the same step",
        None,
        _always(numbers.SMALL),
    ),
    Column("step_time_s", "step time", "Mean time of a step", "low", numbers.time_scale),
    Column(
        "samples_per_s",
        "samples/s",
        "Samples per second over all ranks",
        "high",
        _always(numbers.PLAIN),
    ),
    Column(
        "tokens_per_s",
        "tokens/s",
        "Tokens per second over all ranks",
        "high",
        _always(numbers.PLAIN),
    ),
    Column(
        "speed_up",
        "speed-up",
        "Samples per second over the reference's",
        "high",
        _always(numbers.TIMES),
    ),
    Column(
        "peak_memory_bytes",
        "peak memory",
        "Peak memory of the rank that needs most",
        "low",
        numbers.byte_scale,
    ),
    Column(
        "forecast_error",
        "forecast Δ",
        "Peak memory that was forecast, relative to what was measured",
        None,
        _always(numbers.SIGNED_PERCENT),
    ),
    Column(
        "data_wait_share",
        "data wait",
        "Share of the time in which rank 0 waited for data",
        None,
        _always(numbers.PERCENT),
    ),
    Column(
        "skipped_steps",
        "skipped",
        "Steps that did not change the weights",
        None,
        _always(numbers.WHOLE),
    ),
    Column("wall_s", "wall time", "From start to end", None, _always(numbers.SECONDS)),
    Column("steps", "steps", "Steps taken", None, _always(numbers.WHOLE)),
)
