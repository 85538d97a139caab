"""What cells are called beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from train.command_line import common
from train.merge import key_of
from train.plan.cells import PlannedCell
from train.plan.plan import Plan

RANKS = {"cluster", "cluster.nnodes", "cluster.nproc_per_node"}
"""Keys that say how many ranks there are, which a planned cell tells as a number."""


@dataclass(frozen=True)
class Name:
    """One cell's name.

    Attributes:
        line: strategy, precision and the other words that not all cells share; the same for
            cells that differ in the number of ranks alone.
        cell: with that number, where it differs.
        words: the same as overrides, for a command.
    """

    line: str
    cell: str
    words: str


class Planned(NamedTuple):
    """A cell that can be, with its name."""

    cell: PlannedCell
    name: Name
    plan: Plan


def planned(cells: Sequence[PlannedCell]) -> list[Planned]:
    """The cells that can be, in their order."""
    # A cell that stands alone has nothing to be told apart by.
    shared = common([list(cell.overrides) for cell in cells]) if len(cells) > 1 else None
    plans = [(cell, cell.plan) for cell in cells if cell.plan is not None]
    several = len({plan.cell["world_size"] for _, plan in plans}) > 1
    return [Planned(cell, _name(cell, plan, shared, several), plan) for cell, plan in plans]


def refusals(cells: Sequence[PlannedCell]) -> dict[str, list[str]]:
    """The others by the reason, called by the overrides that not all cells share."""
    shared = common([list(cell.overrides) for cell in cells])
    out: dict[str, list[str]] = {}
    for cell in cells:
        if cell.plan is None:
            own = " ".join(word for word in cell.overrides if word not in shared)
            out.setdefault(cell.refused, []).append(own)
    return out


def _name(cell: PlannedCell, plan: Plan, shared: set[str] | None, several: bool) -> Name:
    told = {*RANKS, "parallel", "precision"}
    own = [w for w in cell.overrides if key_of(w) not in told]
    own = [] if shared is None else [w for w in own if w not in shared]
    where = plan.cell
    ranks = f", {where['world_size']:,} rank{'s' if where['world_size'] > 1 else ''}"
    line, words = (
        " ".join([*both, *own])
        for both in (
            (where["parallel"], where["precision"]),
            (f"parallel={where['parallel']}", f"precision={where['precision']}"),
        )
    )
    return Name(line, line + ranks * several, words + ranks * several)
