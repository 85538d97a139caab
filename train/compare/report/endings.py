"""The runs that did not complete: what went wrong with each, in full, and where to read on."""

from __future__ import annotations

from pathlib import Path

from train.compare.comparison import Comparison
from train.compare.report.markup import escape, link
from train.compare.report.states import COMPLETED, GOING, badge
from train.compare.results import Result


def endings(comparison: Comparison, start: Path) -> str:
    """A card for each run that ended without completing; empty where all did."""
    cards = [
        _card(row.label, result, start)
        for row in comparison.rows
        for result in row.results
        if result.status not in (COMPLETED, *GOING)
    ]
    return "".join(cards)


def _card(label: str, result: Result, start: Path) -> str:
    error = result.error or {}
    cause = error.get("cause") or "No cause was written down."
    facts = [
        *([f"rank {error['rank']}"] if error.get("rank") is not None else []),
        *([f"after step {error['step']}"] if error.get("step") else []),
        f"attempt {result.attempts}",
    ]
    kind = str(error.get("kind") or "").replace("_", " ")
    text = kind if kind and kind != result.status else result.status
    text = result.status if text == result.status else f"{result.status}: {text}"
    return (
        f'<article class="ending"><h3>{escape(label)} {badge(result.status, text)}</h3>'
        f'<pre class="cause">{escape(cause)}</pre>'
        f"<p>{escape(' · '.join(facts))} · {' · '.join(_links(result, start))}</p></article>"
    )


def _links(result: Result, start: Path) -> list[str]:
    error = result.error or {}
    rank = error.get("rank")
    names = [f"logs/rank-{0 if rank is None else rank}.log", error.get("traceback_file")]
    there = [name for name in names if name and (result.folder / name).is_file()]
    return [
        link(result.folder, start, result.name),
        *[link(result.folder / name, start, Path(name).name) for name in there],
    ]
