"""Several cells planned, and the one to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.errors import ConfigError
from train.kinds import build_parallel
from train.plan.activations import Activations
from train.plan.place import MARGIN, place_of
from train.plan.plan import Plan, plan
from train.plan.words import Words


@dataclass(frozen=True)
class PlannedCell:
    """One cell: its overrides, and its plan or why there is none."""

    overrides: tuple[str, ...]
    plan: Plan | None
    refused: str = ""
    best: bool = False
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        out: dict[str, Any] = {"overrides": list(self.overrides), "best": self.best}
        if self.best:
            out["reason"] = self.reason
        return {**out, **({"refused": self.refused} if self.plan is None else self.plan.as_json())}


def plan_cells(words: Words) -> list[PlannedCell]:
    """Plan each cell that is asked for; a cell that cannot be says why, and the others go on."""
    activations = Activations()
    cells = []
    for asked in words.cells:
        config = asked.job.config
        try:
            parallel = build_parallel(config)
            place = place_of(config, asked.device, parallel.one_process, words.sizes_given)
            made = plan(config, place, activations)
            made = replace(made, notes=(*words.notes, *made.notes))
            cells.append(PlannedCell(asked.overrides, made))
        except ConfigError as refusal:
            cells.append(PlannedCell(asked.overrides, None, str(refusal)))
    return marked(cells)


def marked(cells: Sequence[PlannedCell], margin: float = MARGIN) -> list[PlannedCell]:
    """The cells, the best of them marked with the reason.

    The fastest that fits with a margin to spare, by time for a sample; where no time is known,
    the one that leaves most memory.
    """
    fitting = [cell for cell in cells if cell.plan is not None and fits(cell.plan, margin)]
    if not fitting:
        return list(cells)
    timed = [cell for cell in fitting if per_sample(cell.plan) is not None]
    if timed:
        best = min(timed, key=lambda cell: (per_sample(cell.plan), peak(cell)))
        steps = {samples_of(cell.plan) for cell in timed}
        fastest = "the fastest" if len(steps) == 1 else "the fastest for a sample"
        reason = f"{fastest} that leaves {margin:.0%} of the device free"
    else:
        best = min(fitting, key=peak)
        reason = f"the least memory; no time is known {_why_no_time(best.plan)}"
    return [
        PlannedCell(cell.overrides, cell.plan, best=True, reason=reason) if cell is best else cell
        for cell in cells
    ]


def _why_no_time(plan: Plan | None) -> str:
    assert plan is not None
    if plan.sizes is None:
        return "of a bare number of parameters"
    if plan.cell["device"] in ("cpu", "cuda"):
        return "without a named device"
    return f"of {plan.cell['device']} in this precision"


def none_taken(plans: Sequence[Plan]) -> tuple[str, str]:
    """Why none of the plans is one to take, and what would help."""
    if any(fits(plan, 0.0) for plan in plans):
        return f"none leaves {MARGIN:.0%} of the device free", (
            "a smaller micro-batch, more ranks or checkpointing would"
        )
    return "none fits", "more ranks, checkpointing, or a smaller model"


def fits(plan: Plan, margin: float = MARGIN) -> bool:
    """Whether a plan leaves the margin; any does where no memory is known."""
    if plan.device_bytes is None:
        return True
    return plan.per_rank["total_peak"] <= (1 - margin) * plan.device_bytes


def peak(cell: PlannedCell) -> int:
    """Bytes of a planned cell at its peak."""
    assert cell.plan is not None
    return cell.plan.per_rank["total_peak"]


def per_sample(plan: Plan | None) -> float | None:
    """Seconds of a step for each of its samples."""
    samples = samples_of(plan)
    if plan is None or plan.step_time_s is None or samples is None:
        return None
    return plan.step_time_s / samples


def samples_of(plan: Plan | None) -> int | None:
    """Of a step, over all ranks."""
    return plan.sizes["global_batch_size"] if plan is not None and plan.sizes else None
