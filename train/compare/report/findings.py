"""What a reader wants to know first: each a number with the words around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter

from train.compare.comparison import Comparison, Row
from train.compare.report import numbers
from train.compare.report.frame import Finding
from train.compare.report.parity import SAME
from train.compare.report.states import completed

CUT_UP = {"parallel", "cluster"}
"""Groups that change who computes what, and not what is computed."""


def findings(comparison: Comparison) -> list[Finding]:
    """What the comparison shows; only what its numbers support."""
    rows = [row for row in comparison.rows if completed(row)]
    if not rows:
        return [
            Finding(
                "Result", "no cell completed", "There is nothing to compare: see what went wrong."
            )
        ]
    found = [
        _fastest(rows, comparison.reference),
        _smallest(rows, comparison.reference),
        _farthest(rows, comparison.reference),
        _same_mathematics(rows, comparison.reference),
    ]
    return [finding for finding in found if finding is not None]


def _mean(row: Row | None, key: str) -> float | None:
    value = None if row is None else row.values.get(key)
    mean = None if value is None else value.mean
    return mean if mean is not None and math.isfinite(mean) else None


def _known(rows: Sequence[Row], key: str) -> list[tuple[float, Row]]:
    return [(mean, row) for row in rows if (mean := _mean(row, key)) is not None]


def _fastest(rows: Sequence[Row], reference: Row | None) -> Finding | None:
    known = _known(rows, "samples_per_s")
    if not known:
        return None
    speed, row = max(known, key=itemgetter(0))
    text = f"{numbers.significant(speed)} samples/s"
    base = _mean(reference, "samples_per_s")
    if len(known) == 1:
        return Finding("Speed", row.label, text)
    if row is reference:
        return Finding("Fastest", row.label, f"{text}: no other cell is faster than the reference")
    if base:
        text += f", {numbers.TIMES.with_unit(speed / base)} the reference's"
    return Finding("Fastest", row.label, text)


def _smallest(rows: Sequence[Row], reference: Row | None) -> Finding | None:
    known = _known(rows, "peak_memory_bytes")
    if not known:
        return None
    least, row = min(known, key=itemgetter(0))
    text = f"{numbers.byte_scale([least]).with_unit(least)} on the rank that needs most"
    if len(known) == 1:
        return Finding("Memory", row.label, text)
    alike = [other for memory, other in known if memory == least and other is not row]
    base = _mean(reference, "peak_memory_bytes")
    if base and row is not reference and least < base:
        text += f", {numbers.PERCENT.with_unit(least / base)} of the reference's"
    if alike:
        text += f"; as little: {_few([other.label for other in alike])}"
    return Finding("Smallest memory", row.label, text)


def _farthest(rows: Sequence[Row], reference: Row | None) -> Finding | None:
    others = [row for row in rows if row is not reference]
    known = _known(others, "loss_difference")
    if not known:
        return None
    difference, row = max(known, key=lambda pair: abs(pair[0]))
    if difference == 0:
        return Finding(
            "Largest loss difference", "none", "All cells end at exactly the reference's loss"
        )
    side = "above" if difference > 0 else "below"
    return Finding(
        "Largest loss difference",
        numbers.SIGNED.text(difference),
        f"{row.label} ends {side} the reference"
        + (f" ({row.note})" if row.note else "")
        + (
            ""
            if len(known) == len(others)
            else f"; {len(others) - len(known)} cannot be held against it"
        ),
    )


def _same_mathematics(rows: Sequence[Row], reference: Row | None) -> Finding | None:
    if reference is None or reference.results[0].cell.get("precision") != "fp32":
        return None
    exact = [row for row in rows if row is not reference and _differs_in_strategy(row, reference)]
    known = _known(exact, "curve_difference")
    if not known:
        return None
    close = [row for difference, row in known if difference <= SAME]
    far = [row.label for difference, row in known if difference > SAME]
    text = f"{_cells(len(close), 'follows', 'follow')} the reference's curve to 1e-5 at every step"
    return Finding(
        "Parity in fp32",
        f"{len(close)} of {len(known)}",
        f"{text}; not {_few(far)}" if far else text,
    )


def _differs_in_strategy(row: Row, reference: Row) -> bool:
    """Whether a cell does the reference's mathematics: no key differs but of how it is cut up."""
    there = reference.differences
    keys = {key for key, value in row.differences.items() if value != there.get(key)}
    return not row.note and {key.partition(".")[0] for key in keys} <= CUT_UP


def _cells(count: int, one: str, several: str) -> str:
    return f"cell {one}" if count == 1 else f"cells {several}"


def _few(labels: Sequence[str]) -> str:
    rest = len(labels) - 3
    return ", ".join(labels[:3]) + (f" and {rest} more" if rest > 0 else "")
