"""A plan as its command makes it, in this process."""

from __future__ import annotations

from typing import Any

from train.plan.cells import PlannedCell, plan_cells
from train.plan.plan import Plan
from train.plan.words import read


def cells(*argv: str) -> list[PlannedCell]:
    """The cells that the words ask for."""
    return plan_cells(read(list(argv)))


def planned(*argv: str) -> Plan:
    """The one cell that the words ask for."""
    (cell,) = cells(*argv)
    assert cell.plan is not None, cell.refused
    return cell.plan


def bare(count: str, parallel: str, precision: str, ranks: int, *more: str) -> Plan:
    """A number of parameters on so many ranks of one node of A100s."""
    return planned(
        "model=parameters",
        f"model.count={count}",
        f"parallel={parallel}",
        f"precision={precision}",
        "cluster.device=a100_80gb",
        f"cluster.nproc_per_node={ranks}",
        *more,
    )


def states(plan: Plan) -> dict[str, Any]:
    """What papers count, as the plan has it for this project's strategies."""
    return {part: plan.per_rank[part] for part in ("params", "grads", "master", "optimizer")}
