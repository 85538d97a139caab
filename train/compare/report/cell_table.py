"""The table of all cells: sortable in the page, complete without a script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from train.compare.comparison import Comparison, Row, Value
from train.compare.report.columns import COLUMNS, Column
from train.compare.report.markup import MISSING, escape, link, sortable
from train.compare.report.numbers import Scale
from train.compare.report.states import badge, completed, state
from train.compare.results import Result


def cell_table(comparison: Comparison, start: Path) -> str:
    """The table, without the columns that are empty everywhere.

    Args:
        start: the folder of the page, from which links lead to the runs.
    """
    rows = comparison.rows
    columns = [column for column in COLUMNS if _means(rows, column)]
    scales = {column.key: column.scale(_means(rows, column)) for column in columns}
    best = {column.key: _best(rows, column) for column in columns}
    ranks = any("world_size" in row.results[0].cell for row in rows)
    heads = sortable("ranks", "number") if ranks else ""
    heads += "".join(
        sortable(column.title, "number", scales[column.key].unit, column.explanation)
        for column in columns
    )
    body = []
    for number, row in enumerate(rows):
        cells = "".join(
            _cell(row.values.get(column.key), scales[column.key], best[column.key])
            for column in columns
        )
        body.append(
            f'<tr data-row="{number}"{" class=reference" if row.is_reference else ""}>'
            f'<th scope="row" data-sort="{escape(row.label)}">{_label(row, start)}</th>'
            f'<td data-sort="{escape(row.status)}">{badge(state(row), row.status)}</td>'
            f"{_ranks(row) if ranks else ''}"
            f"{cells}</tr>"
        )
    return (
        '<table class="cells"><thead><tr>'
        f"{sortable('cell')}{sortable('status')}{heads}"
        f"</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _means(rows: Sequence[Row], column: Column) -> list[float]:
    values = [row.values.get(column.key) for row in rows]
    return [value.mean for value in values if value is not None and value.mean is not None]


def _best(rows: Sequence[Row], column: Column) -> float | None:
    """The best number of the completed cells, where there are several and they differ."""
    means = [
        mean for mean in _means([r for r in rows if completed(r)], column) if math.isfinite(mean)
    ]
    if column.good is None or len(set(means)) < 2:
        return None
    return min(means) if column.good == "low" else max(means)


def _cell(value: Value | None, scale: Scale, best: float | None) -> str:
    if value is None or value.mean is None:
        return f'<td class="number missing">{MISSING}</td>'
    mean = value.mean
    text = escape(scale.text(mean))
    if value.spread is not None:
        spread = escape(scale.spread_text(value.spread))
        text += f' <small title="standard deviation over seeds">± {spread}</small>'
    kind = "number best" if mean == best else "number"
    key = repr(mean) if math.isfinite(mean) else ""
    return f'<td class="{kind}" data-sort="{key}">{text}</td>'


def _ranks(row: Row) -> str:
    """How many ranks the cell had; on how many nodes and what device is told on hovering."""
    cell = row.results[0].cell
    if "world_size" not in cell:
        return f'<td class="number missing">{MISSING}</td>'
    ranks = escape(cell["world_size"])
    return (
        f'<td class="number" data-sort="{ranks}" title="{escape(cell.get("cluster", ""))}">'
        f"{ranks}</td>"
    )


def _label(row: Row, start: Path) -> str:
    """The cell's name, with a link to the folder of each of its runs."""
    mark = '<span class="tag">reference</span>' if row.is_reference else ""
    note = f'<small class="note">{escape(row.note)}</small>' if row.note else ""
    first, *others = row.results
    if not others:
        return _name(f"{link(first.folder, start, row.label)}{mark}{note}")
    links = " ".join(link(run.folder, start, _seed(run)) for run in row.results)
    seeds = f'<small class="seeds">{links}</small>'
    return _name(f"{escape(row.label)}{mark}{seeds}{note}")


def _name(content: str) -> str:
    return f'<div class="name"><span class="swatch"></span>{content}</div>'


def _seed(run: Result) -> str:
    return f"seed {run.config['seed']}" if "seed" in run.config else run.name
