"""What the figures are drawn from: plain data, small enough for a browser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from train.compare.comparison import Comparison, Row
from train.compare.report.curves import Curve, Losses, joined, losses
from train.compare.report.pareto import front
from train.compare.report.parity import SAME, Deviation, deviation
from train.compare.report.states import completed
from train.compare.report.thinning import kept

POINTS = 40_000
"""How many points the training curves of all cells have together."""
FEWEST, MOST = 200, 2000
"""And how many a single one has, at least and at most."""


@dataclass(frozen=True)
class Payload:
    """The data of the figures, and what is to be said of it.

    Attributes:
        content: for the page's scripts, see `cell` in page/state.js.
        thinned: the number of points that a long curve was cut down to; None if none was.
    """

    content: dict[str, Any]
    thinned: int | None

    def has(self, part: str) -> bool:
        """Whether any cell has data for a figure: `train`, `validation`, `parity`, `speed`..."""
        return any(cell[part] for cell in self.content["cells"])


def payload(comparison: Comparison) -> Payload:
    """Curves, differences, speed and memory of all cells."""
    runs = [[losses(result) for result in row.results] for row in comparison.rows]
    most = min(MOST, max(FEWEST, POINTS // max(1, len(runs))))
    reference = next((own for own, row in _pairs(runs, comparison) if row.is_reference), None)
    cells, thinned = [], False
    for own, row in _pairs(runs, comparison):
        train = joined([run.train for run in own])
        thinned |= len(train.points) > most
        cells.append(
            {
                "label": row.label,
                "note": row.note,
                "parallel": str(row.results[0].cell.get("parallel", "other")),
                "precision": str(row.results[0].cell.get("precision", "other")),
                "reference": row.is_reference,
                "completed": completed(row),
                "seeds": len(row.results),
                "train": _columns(train, most),
                "validation": _columns(joined([run.validation for run in own]), most),
                "parity": None
                if reference is None or row.is_reference
                else _parity(deviation(own, reference), most),
                "speed": _pair(row, "samples_per_s"),
                "tokens_per_s": _pair(row, "tokens_per_s"),
                "memory": _pair(row, "peak_memory_bytes"),
            }
        )
    content = {"cells": cells, "front": _front(cells), "same": SAME}
    return Payload(content, most if thinned else None)


def _pairs(runs: list[list[Losses]], comparison: Comparison) -> list[tuple[list[Losses], Row]]:
    return list(zip(runs, comparison.rows, strict=True))


def _columns(curve: Curve, most: int) -> dict[str, list[float | None]] | None:
    """A curve as lists of equal length; None for one without any finite loss."""
    values = [point.loss for point in curve.points]
    if not any(map(math.isfinite, values)):
        return None
    chosen = kept(values, most)
    points = [curve.points[index] for index in chosen]
    columns: dict[str, list[float | None]] = {
        "step": [point.step for point in points],
        "loss": _short([point.loss for point in points]),
        "samples": _short([point.samples for point in points]),
        "tokens": _short([point.tokens for point in points]),
        "seconds": _short([point.seconds for point in points]),
    }
    # Of a single run both are its own curve; nan equals no other.
    if curve.low is not curve.high:
        columns["low"] = _short([curve.low[index] for index in chosen])
        columns["high"] = _short([curve.high[index] for index in chosen])
    return columns


def _parity(there: Deviation, most: int) -> dict[str, list[float | None]] | None:
    if not any(map(math.isfinite, there.relative)):
        return None
    chosen = kept(there.relative, most)
    return {
        "step": [there.steps[index] for index in chosen],
        "signed": _short([there.signed[index] for index in chosen]),
        "relative": _short([there.relative[index] for index in chosen]),
    }


def _short(values: Sequence[float | None]) -> list[float | None]:
    """Seven digits, as much as fp32 has: a third of the page's size otherwise."""
    return [
        float(f"{value:.7g}") if value is not None and math.isfinite(value) else None
        for value in values
    ]


def _pair(row: Row, key: str) -> list[float | None] | None:
    """Mean and spread; None if there is no finite mean."""
    value = row.values.get(key)
    if value is None or value.mean is None or not math.isfinite(value.mean):
        return None
    return [value.mean, value.spread]


def _front(cells: Sequence[dict[str, Any]]) -> list[int]:
    """Numbers of the completed cells that no other beats in memory and speed."""
    both = [
        number
        for number, cell in enumerate(cells)
        if cell["completed"] and cell["speed"] and cell["memory"]
    ]
    points = [(cells[number]["memory"][0], cells[number]["speed"][0]) for number in both]
    return [both[index] for index in front(points)]
