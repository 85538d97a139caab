"""results.csv: a line for each run, with all that a spreadsheet or a script may ask."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from train.compare.comparison import COLUMNS, Comparison, Row
from train.compare.varied import Facts, text
from train.files import write_text

FILE = "results.csv"

PREFIX = "config."

CELL = ("parallel", "precision", "cluster", "world_size")


def write_csv(comparison: Comparison, path: Path) -> None:
    """Write a comparison to `path`, a line for each run, numbers at full precision.

    After the columns that are always there, each key in which the runs' configs differ has one,
    by its full name behind `config.`, as `steps` are both planned and taken. What is not known is
    empty.
    """
    keys = [key for key in comparison.varied if key not in (*CELL, "seed")]
    names = ["run", "status", "row", *CELL, "seed", "attempts", *COLUMNS]
    names += ["note", "cause", "folder", *(PREFIX + key for key in keys)]
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    for row in comparison.rows:
        writer.writerows(_lines(row, keys, path.parent))
    write_text(path, file.getvalue())


def _lines(row: Row, keys: list[str], beside: Path) -> Iterator[dict[str, Any]]:
    for result, numbers in zip(row.results, row.each, strict=True):
        facts = Facts(result)
        yield {
            "run": result.name,
            "status": result.status,
            "row": row.label,
            **{name: result.cell.get(name) for name in CELL},
            "seed": facts.known("seed"),
            "attempts": result.attempts,
            **{name: numbers.get(name) for name in COLUMNS},
            "note": row.note,
            "cause": (result.error or {}).get("cause"),
            "folder": _from(beside, result.folder),
            **{PREFIX + key: _text(facts, key) for key in keys},
        }


def _text(facts: Facts, key: str) -> str:
    value = facts.known(key)
    return "" if value is None else text(value)


def _from(beside: Path, folder: Path) -> str:
    """A run's folder as seen from the file, so that both can move together; else in full."""
    inside, outside = folder.resolve(), beside.resolve()
    return str(inside.relative_to(outside) if inside.is_relative_to(outside) else inside)
