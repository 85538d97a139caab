"""What a reader wants to know first: which cell to take, and what it needs."""

from __future__ import annotations

from collections.abc import Sequence

from train.check.table import duration
from train.compare.report.frame import Finding
from train.compare.report.numbers import significant
from train.plan.cells import PlannedCell, none_taken, per_sample
from train.plan.names import Planned, planned
from train.plan.page.payload import FITS, TIGHT, TOO_LARGE, state_of
from train.plan.plan import Plan
from train.units import said


def findings(cells: Sequence[PlannedCell]) -> list[Finding]:
    """The tiles of a page; of one cell, what it needs."""
    rows = planned(cells)
    if len(cells) == len(rows) == 1:
        return _alone(rows[0].plan)
    found = [_best(rows), _least(rows), _fastest(rows), _counted(rows, len(cells))]
    return [finding for finding in found if finding is not None]


def _alone(plan: Plan) -> list[Finding]:
    found = [Finding("Peak on a rank", said(plan.per_rank["total_peak"]), plan.moment)]
    if plan.headroom is not None and plan.device_bytes is not None:
        over = plan.headroom < 0
        found.append(
            Finding(
                "Device",
                f"{said(abs(plan.headroom))} {'too much' if over else 'left'}",
                f"of {said(plan.device_bytes)}, {plan.cell['device']}",
            )
        )
    if plan.step_time_s is not None:
        told = (
            f"by the check; MFU {plan.mfu:.2f}"
            if plan.measured
            else f"at the least; MFU {plan.mfu:.2f}, as kernels never reach the data sheet"
        )
        found.append(Finding("Step", duration(plan.step_time_s), told))
    return found


def _best(rows: Sequence[Planned]) -> Finding:
    best = next(((cell, name) for cell, name, _ in rows if cell.best), None)
    if best is None:
        none, cure = none_taken([plan for _, _, plan in rows])
        return Finding("Take", none, f"{cure[0].upper()}{cure[1:]}.")
    return Finding("Take", best[1].cell, best[0].reason)


def _least(rows: Sequence[Planned]) -> Finding | None:
    if not rows:
        return None
    _, name, plan = min(rows, key=lambda row: row.plan.per_rank["total_peak"])
    return Finding(
        "Least memory",
        said(plan.per_rank["total_peak"]),
        f"{name.cell}, on the rank that needs the most",
    )


def _fastest(rows: Sequence[Planned]) -> Finding | None:
    timed = [
        (seconds, name)
        for _, name, plan in rows
        if (seconds := per_sample(plan)) is not None and state_of(plan) != TOO_LARGE
    ]
    if not timed:
        return None
    seconds, name = min(timed, key=lambda one: one[0])
    return Finding(
        "Fastest that fits",
        f"{significant(1 / seconds)} samples/s",
        f"{name.cell}, at the most",
    )


def _counted(rows: Sequence[Planned], cells: int) -> Finding:
    states = [state_of(row.plan) for row in rows]
    counts = (
        (states.count(TIGHT), "leave less than a tenth of the device"),
        (states.count(TOO_LARGE), "do not fit"),
        (cells - len(rows), "refused"),
    )
    others = ", ".join(f"{count} {words}" for count, words in counts if count)
    return Finding("Fit with room to spare", f"{states.count(FITS)} of {cells}", others)
