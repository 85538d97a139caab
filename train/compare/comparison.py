"""Runs beside each other, and beside one of them that is the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import ConfigError
from train.compare.against import largest
from train.compare.alike import Alike, alike
from train.compare.fairness import note
from train.compare.results import Result
from train.compare.rows import COLUMNS, Row, Value, over_runs, status_of
from train.compare.varied import Facts, varied
from train.nearest import hint

__all__ = ["COLUMNS", "Comparison", "Row", "Value", "compare"]

WISHES: tuple[dict[str, str], ...] = (
    {"parallel": "single", "precision": "fp32"},
    {"parallel": "single"},
    {"precision": "fp32"},
    {},
)
"""What a reference is to be, the first that some row is."""


TOLD = 3
"""Keys that a heading names; with more it counts them."""


@dataclass(frozen=True)
class Comparison:
    """Rows in the order of their first runs.

    Attributes:
        title: whose runs they are, as a folder.
        folders: of all runs.
        rows: one for each set of runs that are equal but for their seed.
        reference: the row that differences and speed-ups are to; None if none completed.
        varied: keys whose values differ between runs, `seed` included. Groups stand for the
            options in them (`parallel`, `precision`, `model`); keys that only follow from others,
            as `micro_batch_size` that was worked out, are left out.
        differences: by key of `varied` but the seed, the values, a row each; None where unknown.
    """

    title: str
    folders: list[Path]
    rows: list[Row]
    reference: Row | None
    varied: list[str]
    differences: dict[str, list[Any]]

    @property
    def subject(self) -> str:
        """What is compared, for a heading: the keys that vary, as `parallel × precision`."""
        keys = [key.rpartition(".")[2] for key in self.varied]
        if len(keys) > TOLD:
            keys = [*keys[:TOLD], f"{len(keys) - TOLD} more"]
        return " × ".join(keys) or f"{len(self.folders)} run{'s' if len(self.folders) > 1 else ''}"


def compare(results: Sequence[Result], reference: str | None = None, title: str = "") -> Comparison:
    """Set runs beside each other.

    Args:
        reference: a row's label or the name of a run's folder. None takes the first row with a
            completed run that is `single` and fp32, else `single`, else fp32, else any.

    Raises:
        ConfigError: for a reference that there is not.
    """
    facts = [Facts(result) for result in results]
    keys = varied(facts)
    differing = [key for key in keys if key != "seed"]
    sets = alike(facts, differing)
    chosen = _default(sets) if reference is None else _named(sets, reference)
    rows = [_row(one, chosen, differing) for one in sets]
    return Comparison(
        title=title,
        folders=[result.folder for result in results],
        rows=rows,
        reference=next((row for row in rows if row.is_reference), None),
        varied=keys,
        differences={key: [row.differences[key] for row in rows] for key in differing},
    )


def _default(sets: Sequence[Alike]) -> Alike | None:
    done = [one for one in sets if one.completed]
    fitting = (
        one for wish in WISHES for one in done if wish.items() <= one.results[0].cell.items()
    )
    return next(fitting, None)


def _named(sets: Sequence[Alike], name: str) -> Alike:
    for one in sets:
        if name == one.label or any(name == run.name for run in one.results):
            return one
    known = [one.label for one in sets]
    words = [f"--reference {name}: no row is called so.", hint(name, known)]
    words += [f"There are: {', '.join(known)}.", "The name of a run's folder will do as well."]
    raise ConfigError(" ".join(word for word in words if word))


def _row(own: Alike, reference: Alike | None, keys: Sequence[str]) -> Row:
    each = [one.values for one in own.measures]
    if reference is not None:
        other = reference.as_reference()
        each = [
            measures.values | other.held_against(facts.seed, measures)
            for facts, measures in zip(own.facts, own.measures, strict=True)
        ]
    counted = [each[i] for i in own.counted]
    values = {name: over_runs(one.get(name) for one in counted) for name in COLUMNS}
    values["curve_difference"] = Value(largest(one.get("curve_difference") for one in counted))
    return Row(
        label=own.label,
        results=own.results,
        status=status_of(own.results),
        values=values,
        is_reference=own is reference,
        note=note(own.facts, reference.facts) if reference else "",
        differences={key: own.facts[0].known(key) for key in keys},
        each=each,
    )
