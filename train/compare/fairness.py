"""Why a row is no fair comparison with the reference."""

from __future__ import annotations

from collections.abc import Sequence

from train.changes import FREE
from train.compare.varied import Facts, text

ALIKE = ("global_batch_size", "steps", "objective", "init_from")
"""Keys without which two losses at a step are not of the same thing."""


def note(row: Sequence[Facts], reference: Sequence[Facts]) -> str:
    """What makes the losses of two rows incomparable, in words.

    Empty if nothing does, or where no run of the row was ever started.
    """
    if not any(one.resolved for one in row):
        return ""
    own, other = _started(row), _started(reference)
    differing = [
        f"{key} {text(own.value(key))}, not {text(other.value(key))}"
        for key in ALIKE
        if text(own.value(key)) != text(other.value(key))
    ]
    seeds = [sorted({one.seed for one in some}) for some in (row, reference)]
    if not {*seeds[0]} & {*seeds[1]}:
        differing.append(f"seed {', '.join(seeds[0])}, not {', '.join(seeds[1])}")
    if _other_data(own, other):
        differing.append("other data")
    return "; ".join([*differing, *_cut_short(row)])


def _other_data(own: Facts, other: Facts) -> bool:
    prints = [one.result.provenance.get("data", {}).get("fingerprint") for one in (own, other)]
    if all(prints) and prints[0] != prints[1]:
        return True
    keys = {key for one in (own, other) for key in one.keys if key.startswith("data.")}
    return any(text(own.value(key)) != text(other.value(key)) for key in keys if key not in FREE)


def _started(row: Sequence[Facts]) -> Facts:
    """A run of a row whose config is known whole, if there is one."""
    return next((one for one in row if one.resolved), row[0])


def _cut_short(row: Sequence[Facts]) -> list[str]:
    told = [
        f"stopped early after {one.result.steps} of {one.resolved.get('steps')} steps"
        for one in row
        if one.result.summary.get("stopped_early")
    ]
    return list(dict.fromkeys(told))
