"""What the figures are drawn from, and how each cell is called: plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from train.plan.cells import MARGIN, fits, per_sample
from train.plan.names import Planned
from train.plan.plan import Plan
from train.plan.table import WORDS, several_batches

FITS, TIGHT, TOO_LARGE = "fits", "tight", "too large"


@dataclass(frozen=True)
class Payload:
    """The data of the figures, and which of them there are.

    Attributes:
        content: `parts`, pairs of a part of memory and its name; `batches`, whether steps take
            different numbers of samples; `cells`, see `_cell`.
        scales: whether cells differ in the number of ranks.
        timed: whether the time of any step is known.
    """

    content: dict[str, Any]
    scales: bool
    timed: bool


def payload(rows: Sequence[Planned]) -> Payload:
    """Memory by part at the peak, time by part, and ranks of all cells, in bytes and seconds."""
    plans = [row.plan for row in rows]
    content = {
        "parts": [
            [part, word]
            for part, word in WORDS.items()
            if any(plan.at_peak.get(part) for plan in plans)
        ],
        "batches": several_batches(plans),
        "cells": [_cell(row) for row in rows],
    }
    return Payload(
        content,
        scales=len({plan.cell["world_size"] for plan in plans}) > 1,
        timed=any(plan.step_parts_s for plan in plans),
    )


def state_of(plan: Plan) -> str:
    """Whether it fits with the margin, without, or not at all."""
    if plan.headroom is not None and plan.headroom < 0:
        return TOO_LARGE
    return FITS if fits(plan, MARGIN) else TIGHT


def _cell(row: Planned) -> dict[str, Any]:
    """One cell, as state.js and looks.js of the report's page know it, and its numbers."""
    cell, name, plan = row
    return {
        "label": name.cell,
        "line": name.line,
        "note": cell.reason,
        "best": cell.best,
        "state": state_of(plan),
        "parallel": plan.cell["parallel"],
        "precision": plan.cell["precision"],
        "ranks": plan.cell["world_size"],
        "samples": plan.sizes["global_batch_size"] if plan.sizes else None,
        "memory": plan.at_peak,
        "peak": plan.per_rank["total_peak"],
        "moment": plan.moment,
        "device": plan.device_bytes,
        "time": plan.step_parts_s,
        "step": plan.step_time_s,
        "sample": per_sample(plan),
    }
