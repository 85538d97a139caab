"""report.html, from its parts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from train.compare.comparison import Comparison
from train.compare.report.cell_table import cell_table
from train.compare.report.config_table import config_table
from train.compare.report.endings import endings
from train.compare.report.findings import findings
from train.compare.report.frame import framed, without
from train.compare.report.markup import PAGE, escape, filled
from train.compare.report.origin import origin
from train.compare.report.payload import Payload, payload
from train.compare.report.states import badge, counted
from train.files import write_text

SCRIPTS = (
    *("state.js", "theme.js", "looks.js", "figure.js", "loss.js", "parity.js", "bars.js"),
    *("front.js", "legend.js", "table.js", "start.js"),
)
"""The page's own scripts, in the order in which they build on each other."""


def write_report(comparison: Comparison, path: Path) -> None:
    """Write the page of a comparison as one file.

    It asks nothing of a network. Links to the runs are relative to the file's own folder, and
    hold as long as both are moved together.
    """
    write_text(path, page(comparison, path.parent))


def page(comparison: Comparison, start: Path) -> str:
    """The page as HTML, without the sections that would be empty.

    Args:
        start: the folder that the page will be in.
    """
    data = payload(comparison)
    parts = {
        "table": cell_table(comparison, start),
        "config": config_table(comparison),
        "endings": endings(comparison, start),
        "origin": origin(comparison),
    }
    filling = {
        "loss": data.has("train") or data.has("validation"),
        "parity": data.has("parity"),
        "cost": data.has("speed") or data.has("memory"),
        "front": len(data.content["front"]) > 0 and len(comparison.rows) > 1,
        **{name: bool(parts[name]) for name in ("config", "endings", "origin")},
    }
    template = without(
        (PAGE / "sections.html").read_text(), {name for name, there in filling.items() if not there}
    )
    return framed(
        filled(template, {**parts, "thinned": _thinned(data)}),
        kind="comparison",
        title=comparison.subject,
        meta=_meta(comparison),
        findings=findings(comparison),
        example="fsdp bf16",
        data=data.content,
        scripts=[PAGE / name for name in SCRIPTS],
    )


def _meta(comparison: Comparison) -> str:
    results = [result for row in comparison.rows for result in row.results]
    runs = f"{len(results)} run{'' if len(results) == 1 else 's'}"
    facts = [escape(datetime.now(UTC).strftime("%-d %B %Y, %H:%M UTC")), runs]
    if comparison.reference is not None:
        facts.append(f"reference <b>{escape(comparison.reference.label)}</b>")
    if comparison.title:
        facts.append(f"<code>{escape(comparison.title)}</code>")
    badges = [badge(word, f"{count} {word}") for word, count in counted(r.status for r in results)]
    return " · ".join(facts) + " " + "".join(badges)


def _thinned(data: Payload) -> str:
    if data.thinned is None:
        return ""
    return (
        f" Long curves are thinned to at most {data.thinned} points; the lowest and highest of "
        "each stretch are kept."
    )
