"""Short names for rows, made of what differs between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from train.compare.varied import CELL, Facts, text

MOST = 4
"""Keys beside the cell that a label names; with more it takes the name of a run's folder."""


def labels(firsts: Sequence[Facts], keys: Sequence[str]) -> list[str]:
    """A label for each row, all different.

    `parallel` and `precision` stand by their words alone, other keys as `lr=0.01`: by their last
    part where that is unique. Where rows differ in many keys, a row is told by those alone in which
    it differs from rows of the same cell.

    Args:
        firsts: a run of each row.
        keys: in which rows differ.
    """
    own = [key for key in keys if key not in CELL]
    cell = [key for key in CELL if key in keys] or ([] if own else [*CELL])
    words = [" ".join(text(one.words[key]) for key in cell if key in one.words) for one in firsts]
    # With few keys each row names them all, so that what differs between cells is seen as well.
    groups = words if len(own) > MOST else ["all"] * len(words)
    found = [*words]
    for group in {*groups}:
        places = [place for place, other in enumerate(groups) if other == group]
        for place, more in zip(places, _further([firsts[p] for p in places], own), strict=True):
            found[place] = f"{words[place]} {more}".strip() or firsts[place].result.name
    found = _told_apart(found, [str(one.result.cell.get("cluster", "")) for one in firsts])
    return _told_apart(found, [str(one.result.folder) for one in firsts])


def _further(some: Sequence[Facts], keys: Sequence[str]) -> list[str]:
    """What tells rows of the same cell apart; a folder's name where that is too much."""
    differing = [key for key in keys if len({text(one.value(key)) for one in some}) > 1]
    if len(differing) > MOST:
        return [one.result.name for one in some]
    ends = {key: key.rpartition(".")[2] for key in differing}
    count = Counter(ends.values())
    short = {key: end if count[end] == 1 else key for key, end in ends.items()}
    return [" ".join(f"{short[key]}={text(one.value(key))}" for key in differing) for one in some]


def _told_apart(found: list[str], by: Sequence[str]) -> list[str]:
    """Labels that are there more than once, each with a further word where that differs."""
    words: dict[str, set[str]] = {}
    for label, word in zip(found, by, strict=True):
        words.setdefault(label, set()).add(word)
    return [
        f"{label} {word}".strip() if len(words[label]) > 1 else label
        for label, word in zip(found, by, strict=True)
    ]
