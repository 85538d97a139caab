"""A comparison for the terminal: a table, or several where one is too wide, then the failures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from train.compare.comparison import Comparison, Row
from train.compare.numbers import columns, whole
from train.compare.results import Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NATURAL = 100_000
"""Columns of a file or pipe: as many as a line needs, so that nothing is broken or left out."""

STYLES = {"completed": "green", "running": "cyan", "preempted": "yellow"}
"""Colours by status; red for all others."""

GAP = 2
"""Blanks between two columns."""

NARROWEST = 60
"""Columns below which a terminal's own wrapping has to do."""

INDENT = "  "

RUN = "run"
WORDS = (RUN, "cluster", "status")
"""Headings of columns that hold no numbers."""

ENDED_WELL = ("completed", "running")

Cells = list[str]


def print_table(comparison: Comparison, file: TextIO, width: int | None = None) -> None:
    """Print a comparison, in colour where `file` is a terminal.

    Args:
        width: columns of the terminal; None asks it. Columns that do not fit beside the others
            go into a further table: nothing is cut.
    """
    from rich.console import Console
    from rich.text import Text

    if width is None and not file.isatty():
        width = NATURAL
    console = Console(file=file, width=width, highlight=False, emoji=False, markup=False)
    console.width = max(console.width, NARROWEST)
    console.print(Text(_heading(comparison)))
    for some in _fitting(_columns(comparison), console.width):
        console.print()
        console.print(_table(comparison.rows, some, console.width))
    for line in _notes(comparison.rows):
        console.print(Text(line))
    for result, label in _failures(comparison.rows):
        _print_failure(console, result, label)


def _heading(comparison: Comparison) -> str:
    runs = [result for row in comparison.rows for result in row.results]
    completed = sum(result.status == "completed" for result in runs)
    told = f"{completed} of {len(runs)} run{'s' if len(runs) != 1 else ''} completed"
    reference = comparison.reference
    to = f"; reference: {reference.label}" if reference and len(comparison.rows) > 1 else ""
    several = any(len(row.results) > 1 for row in comparison.rows)
    spread = "; mean ± sample standard deviation over runs" if several else ""
    return f"\n{comparison.title}\n{told}{to}{spread}" if comparison.title else f"\n{told}{to}"


def _columns(comparison: Comparison) -> list[tuple[str, Cells]]:
    """Headings and cells: the label first, then what is known of some row."""
    rows = comparison.rows
    found = [(RUN, [_marked(row) for row in rows])]
    found += _ranks(rows)
    if any(row.status != "completed" for row in rows):
        found.append(("status", [row.status for row in rows]))
        found.append(("steps", [_steps(row) for row in rows]))
    for name, column in columns([row.values for row in rows]).items():
        cells = [column.cell(row.values[name]) for row in rows]
        if name == "loss_difference":
            cells = [
                "reference" if row.is_reference else f"{cell} *" if row.note and cell else cell
                for row, cell in zip(rows, cells, strict=True)
            ]
        if _tells(name, comparison, cells):
            found.append((column.heading, cells))
    return found


def _ranks(rows: Sequence[Row]) -> list[tuple[str, Cells]]:
    """How many ranks each row had, or nodes x ranks - device, where rows differ in that."""
    cells = [row.results[0].cell for row in rows]
    places = [str(cell.get("cluster", "")) for cell in cells]
    ranks = [str(cell.get("world_size", "")) for cell in cells]
    if len({*places} - {""}) < 2:
        return []
    return [("ranks", ranks)] if len({*ranks}) == len({*places}) else [("cluster", places)]


def _tells(name: str, comparison: Comparison, cells: Cells) -> bool:
    """Whether a column says more than the others."""
    values = [row.values for row in comparison.rows]
    if name in ("loss_difference", "speed_up"):
        return comparison.reference is not None and len(comparison.rows) > 1 and any(cells)
    if name == "skipped_steps":
        return any(row[name].mean for row in values)
    if name == "train_loss_last":  # where it has to stand for a validation
        return any(row["val_loss_last"].mean is None for row in values) and any(cells)
    if name == "val_loss_best":
        return any(row[name] != row["val_loss_last"] for row in values)
    return any(cells)


def _marked(row: Row) -> str:
    runs = f" ({len(row.results)} runs)" if len(row.results) > 1 else ""
    return f"{row.label}{runs}"


def _steps(row: Row) -> str:
    taken = row.values["steps"].mean
    planned = row.results[0].config.get("steps")
    if taken is None or planned is None:
        return ""
    return f"{whole(taken)}/{planned}"


def _fitting(shown: Sequence[tuple[str, Cells]], width: int) -> Iterator[list[tuple[str, Cells]]]:
    """The columns in as many tables as it takes, each with the label first."""
    label, *rest = shown
    room = width - min(_width(label), width // 2)
    some: list[tuple[str, Cells]] = []
    for column in rest:
        if some and sum(GAP + _width(one) for one in [*some, column]) > room:
            yield [label, *some]
            some = []
        some.append(column)
    yield [label, *some]


def _width(column: tuple[str, Cells]) -> int:
    from rich.cells import cell_len

    heading, cells = column
    return max(cell_len(text) for text in [*heading.split(), *cells])


def _table(rows: Sequence[Row], shown: Sequence[tuple[str, Cells]], width: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for heading, cells in shown:
        words = heading in WORDS
        table.add_column(
            "\n".join(_lines(heading, max(map(len, cells), default=0))),
            justify="left" if words else "right",
            vertical="bottom",
            no_wrap=heading != RUN,
            max_width=width // 2 if heading == RUN else None,
            overflow="fold",
        )
    for place, row in enumerate(rows):
        bold = "bold" if row.is_reference else ""
        styles = [_colour(row.status) if heading == "status" else bold for heading, _ in shown]
        texts = [cells[place] for _, cells in shown]
        table.add_row(*(Text(text, style) for text, style in zip(texts, styles, strict=True)))
    return table


def _lines(heading: str, room: int) -> list[str]:
    """A heading in as many lines as keep it from widening its column."""
    lines: list[str] = []
    for word in heading.split():
        if lines and len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _colour(status: str) -> str:
    return STYLES.get(status, "red")


def _notes(rows: Sequence[Row]) -> list[str]:
    return [
        f"* {row.label}: its loss is no fair comparison: {row.note}" for row in rows if row.note
    ]


def _failures(rows: Sequence[Row]) -> Iterator[tuple[Result, str]]:
    for row in rows:
        for result in row.results:
            if result.status not in ENDED_WELL:
                seed = result.config.get("seed", result.chosen.get("seed"))
                several = len(row.results) > 1 and seed is not None
                yield result, f"{row.label} seed={seed}" if several else row.label


def _print_failure(console: Console, result: Result, label: str) -> None:
    from rich.text import Text

    error = result.error or {}
    rank = "" if error.get("rank") is None else f" on rank {error['rank']}"
    console.print()
    console.print(Text(f"{label}: {result.status}{rank}", style=_colour(result.status)))
    for line in str(error.get("cause") or "no cause is known").splitlines():
        for part in _wrapped(line, console.width - len(INDENT)) or [""]:
            console.print(Text(INDENT + part), soft_wrap=True)
    where = result.folder / result.log if result.log else result.folder
    console.print(Text(f"{INDENT}{where}"), soft_wrap=True)


def _wrapped(line: str, width: int) -> list[str]:
    # A path stays in one piece, so that it can be copied.
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
