"""By how much plans are off, as lines and as the table of docs/plan.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.benchmarks.plan_cells import MODELS, BenchmarkCell
from tests.measured_memory import largest
from tests.planned_memory import compared, planned

Errors = dict[str, float]
"""By part, and of the `total`: the plan over what was held, less one."""


def errors_of(cell: BenchmarkCell, by_rank: list[dict[str, Any]]) -> Errors:
    """Of the total against the rank that held the most; of parts too, or the stage planned for."""
    errors = compared(cell.case, cell.ranks, largest(by_rank))
    if cell.strategy == "pipeline":
        stage = planned(cell.case, cell.ranks).stage
        errors = {**compared(cell.case, cell.ranks, by_rank[stage]), "total": errors["total"]}
    return errors


def line(cell: BenchmarkCell, errors: Errors) -> str:
    """One cell."""
    by_part = " ".join(f"{part} {error:+.1%}" for part, error in errors.items())
    return f"{' '.join(cell.words):52} {by_part}"


def table(measured: dict[BenchmarkCell, Errors]) -> str:
    """Per strategy, precision and number of ranks: by model the worst total and the worst part."""
    rows: dict[tuple[str, str, int], dict[str, list[Errors]]] = {}
    for cell, errors in measured.items():
        key = (cell.strategy, cell.precision, cell.ranks)
        rows.setdefault(key, {}).setdefault(cell.model, []).append(errors)
    models = [model for model in MODELS if any(cell.model == model for cell in measured)]
    out = [
        f"| strategy | precision | ranks | {' | '.join(models)} |",
        "|---" * (3 + len(models)) + "|",
    ]
    for (strategy, precision, ranks), by_model in sorted(rows.items(), key=_order):
        cells = [_worst(by_model.get(model, [])) for model in models]
        out.append(f"| `{strategy}` | {precision} | {ranks} | {' | '.join(cells)} |")
    return "\n".join(out)


def _order(row: tuple[tuple[str, str, int], Any]) -> tuple[int, int, int]:
    from tests.benchmarks.plan_cells import PRECISIONS, STRATEGIES

    strategy, precision, ranks = row[0]
    return STRATEGIES.index(strategy), ranks, [*PRECISIONS].index(precision)


def _worst(several: list[Errors]) -> str:
    """The worst total; the worst part, if it is off by more than 0.1%; of how many cells."""
    if not several:
        return ""
    total = max((errors["total"] for errors in several), key=abs)
    parts = [(error, part) for errors in several for part, error in errors.items()]
    error, part = max((p for p in parts if p[1] != "total"), key=lambda p: abs(p[0]))
    said = f", {part} {error:+.1%}" if abs(error) > 0.001 else ""
    return f"{total:+.1%}{said} ({len(several)})"


def beyond(measured: dict[BenchmarkCell, Errors]) -> Iterable[str]:
    """The cells with a part off by more than 5% or a total by more than 10%."""
    for cell, errors in measured.items():
        parts = max(abs(error) for part, error in errors.items() if part != "total")
        if parts > 0.05 or abs(errors["total"]) > 0.1:
            yield line(cell, errors)
