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
    part where that is unique.

    Args:
        firsts: a run of each row.
        keys: in which rows differ.
    """
    own = [key for key in keys if key not in CELL]
    ends = {key: key.rpartition(".")[2] for key in own}
    count = Counter(ends.values())
    short = {key: end if count[end] == 1 else key for key, end in ends.items()}
    cell = [key for key in CELL if key in keys] or ([] if own else [*CELL])

    def label(one: Facts) -> str:
        words = [text(one.words[key]) for key in cell if key in one.words]
        if len(own) > MOST:
            words.append(one.result.name)
        else:
            words += [f"{short[key]}={text(one.value(key))}" for key in own]
        return " ".join(words) or one.result.name

    found = _told_apart(
        [label(one) for one in firsts],
        [str(one.result.cell.get("cluster", "")) for one in firsts],
    )
    return _told_apart(found, [str(one.result.folder) for one in firsts])


def _told_apart(found: list[str], by: Sequence[str]) -> list[str]:
    """Labels that are there more than once, each with a further word where that differs."""
    words: dict[str, set[str]] = {}
    for label, word in zip(found, by, strict=True):
        words.setdefault(label, set()).add(word)
    return [
        f"{label} {word}".strip() if len(words[label]) > 1 else label
        for label, word in zip(found, by, strict=True)
    ]
