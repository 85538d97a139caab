"""Runs beside each other, and beside one of them that is the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.compare.results import Result
from train.compare.rows import COLUMNS, Row, Value

__all__ = ["COLUMNS", "Comparison", "Row", "Value", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Rows in the order of their first runs.

    Attributes:
        title: for a heading.
        folders: of all runs.
        rows: one for each set of runs that are equal but for their seed.
        reference: the row that differences and speed-ups are to; None if none completed.
        varied: keys whose values differ between runs, `seed` included. Groups stand for the
            options in them (`parallel`, `precision`, `model`); keys that only follow from others,
            as `micro_batch_size` that was worked out, are left out.
        differences: by key of `varied` but the seed, the values, a row each; None where unknown.
    """

    title: str
    folders: list[Path]
    rows: list[Row]
    reference: Row | None
    varied: list[str]
    differences: dict[str, list[Any]]


def compare(results: Sequence[Result], reference: str | None = None, title: str = "") -> Comparison:
    """Set runs beside each other.

    Args:
        reference: a row's label or the name of a run's folder. None takes the first completed
            row that is `single` and fp32, else `single`, else fp32, else any that completed.

    Raises:
        ConfigError: for a reference that there is not.
    """
    raise NotImplementedError
