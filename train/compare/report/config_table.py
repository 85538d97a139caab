"""The table of config keys in which the cells differ."""

from __future__ import annotations

from typing import Any

from train.compare.comparison import Comparison
from train.compare.report.markup import MISSING, escape


def config_table(comparison: Comparison) -> str:
    """A row for each cell, a column for each key that varies; empty if none does."""
    differences = comparison.differences
    if not differences or len(comparison.rows) < 2:
        return ""
    heads = "".join(f'<th scope="col"><code>{escape(key)}</code></th>' for key in differences)
    body = "".join(
        f'<tr data-row="{number}"><th scope="row"><div class="name">'
        f'<span class="swatch"></span>{escape(row.label)}</div></th>'
        + "".join(f"<td>{_value(values[number])}</td>" for values in differences.values())
        + "</tr>"
        for number, row in enumerate(comparison.rows)
    )
    return (
        f'<table><thead><tr><th scope="col">cell</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _value(value: Any) -> str:
    return MISSING if value is None else f"<code>{escape(value)}</code>"
