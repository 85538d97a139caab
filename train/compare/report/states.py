"""How cells and runs ended, for the eye and for counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from train.compare.comparison import Row
from train.compare.report.markup import escape

COMPLETED = "completed"
GOING = ("running",)
ORDER = (COMPLETED, "running", "preempted", "failed", "crashed", "damaged", "refused")

MARKS = {
    COMPLETED: "✓",
    "running": "…",
    "preempted": "‖",
    "refused": "⊘",
}
"""A sign for each state, as colour alone does not tell; any other is a failure: ✕."""


def completed(row: Row) -> bool:
    """Whether all runs of a cell came to their end."""
    return all(result.status == COMPLETED for result in row.results)


def state(row: Row) -> str:
    """The one state that all runs of a cell share, else `mixed`."""
    states = {result.status for result in row.results}
    return states.pop() if len(states) == 1 else "mixed"


def counted(statuses: Iterable[str]) -> list[tuple[str, int]]:
    """How many there are of each state, completed ones first."""
    counts = Counter(statuses)
    known = [word for word in ORDER if counts[word]]
    return [(word, counts[word]) for word in [*known, *sorted(set(counts) - set(ORDER))]]


def badge(state_word: str, text: str) -> str:
    """A small coloured label with `text`."""
    mark = MARKS.get(state_word, "✕")
    return f'<span class="badge {escape(state_word)}"><i>{mark}</i>{escape(text)}</span>'
