"""Planned cells as numbers, without a plan being worked out."""

from __future__ import annotations

from typing import Any

from train.plan.cells import PlannedCell
from train.plan.holding import PARTS
from train.plan.plan import Plan

GB = 10**9


def plan(parallel: str, ranks: int = 8, precision: str = "bf16", **others: Any) -> Plan:
    """10 GB of parameters and 20 GB of activations on a device of 80 GB, a second a step."""
    held = {**dict.fromkeys(PARTS, 0), "params": 10 * GB, "activations": 20 * GB}
    held |= others.pop("held", {})
    total = sum(held.values())
    values: dict[str, Any] = {
        "cell": {
            "precision": precision,
            "parallel": parallel,
            "nodes": ranks // 8,
            "per_node": 8,
            "world_size": ranks,
            "device": "A100 80 GB",
        },
        "parameters": 2_500_000_000,
        "trainable": 2_500_000_000,
        "sizes": {
            "global_batch_size": ranks,
            "micro_batch_size": 1,
            "accumulation": 1,
            "dp_size": ranks,
        },
        "per_rank": {**held, "logits": 0, "total_peak": total},
        "at_peak": held,
        "moment": "backward, blocks.0",
        "paper": {"total": float(total)},
        "device_bytes": 80 * GB,
        "largest_micro_batch": 3,
        "traffic": [],
        "step_time_s": 1.0,
        "step_parts_s": {"compute": 0.7, "wait": 0.2, "update": 0.05, "overhead": 0.05},
        "mfu": 0.4,
        "notes": (),
    }
    return Plan(**{**values, **others})


def cell(plan: Plan, *overrides: str, best: bool = False) -> PlannedCell:
    """One cell, called as a sweep over strategies and nodes would."""
    own = (f"parallel={plan.cell['parallel']}", f"cluster.nnodes={plan.cell['nodes']}")
    reason = "the fastest of all" if best else ""
    return PlannedCell(("model=llama_7b", *own, *overrides), plan, best=best, reason=reason)


def refused(reason: str, *overrides: str) -> PlannedCell:
    """One that cannot be."""
    return PlannedCell(("model=llama_7b", *overrides), None, reason)
