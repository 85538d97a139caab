"""The page, from its parts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from train.compare.report.frame import framed, without
from train.compare.report.markup import PAGE, escape, filled
from train.files import write_text
from train.plan.cells import PlannedCell
from train.plan.names import planned, refusals
from train.plan.page.findings import findings
from train.plan.page.payload import payload
from train.plan.page.table import cell_table
from train.plan.table import heading_of, notes_of

FIGURES = Path(__file__).parent / "figures"
"""The sections, and the scripts that draw in them."""

SHARED = ("state.js", "theme.js", "looks.js", "figure.js")
DRAWN = ("stack.js", "memory.js", "time.js", "scaling.js")
LAST = ("legend.js", "table.js", "start.js")
SCRIPTS = (
    *(PAGE / name for name in SHARED),
    *(FIGURES / name for name in DRAWN),
    *(PAGE / name for name in LAST),
)
"""In the order in which they build on each other; all but what is drawn is the report's."""


def write_page(cells: Sequence[PlannedCell], command: str, path: Path) -> None:
    """Write the plan of one cell or several as one file, which asks nothing of a network."""
    write_text(path, page(cells, command))


def page(cells: Sequence[PlannedCell], command: str) -> str:
    """The page as HTML, without the sections that would be empty.

    Args:
        command: what was typed, for readers.
    """
    rows = planned(cells)
    data = payload(rows)
    plans = [row.plan for row in rows]
    parts = {
        "table": cell_table(rows),
        "refused": _refused(cells),
        "notes": "".join(f"<li>{escape(note)}</li>" for note in notes_of(plans)),
    }
    empty = {
        "scaling": not data.scales,
        "memory": not rows,
        "cells": not rows,
        "time": not data.timed,
        "refused": not parts["refused"],
        "notes": not parts["notes"],
    }
    template = (FIGURES / "sections.html").read_text()
    template = without(template, {name for name, is_empty in empty.items() if is_empty})
    return framed(
        filled(template, parts),
        kind="plan",
        title=heading_of(plans) if plans else "No cell can be",
        meta=_meta(cells, command),
        findings=findings(cells),
        example=rows[-1].name.line if rows else "",
        data=data.content,
        scripts=SCRIPTS,
    )


def _meta(cells: Sequence[PlannedCell], command: str) -> str:
    day = escape(datetime.now(UTC).strftime("%-d %B %Y, %H:%M UTC"))
    many = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
    return f"{day} · {many} · <code>{escape(command)}</code>"


def _refused(cells: Sequence[PlannedCell]) -> str:
    return "".join(
        f'<div class="ending"><h3>{escape("; ".join(who))}</h3>'
        f'<pre class="cause">{escape(reason)}</pre></div>'
        for reason, who in refusals(cells).items()
    )
