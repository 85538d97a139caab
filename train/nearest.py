"""The nearest existing name to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

CUTOFF = 0.6
"""Similarity (0 to 1) below which a name is no longer a likely misspelling."""


def nearest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The known names most like `name`, best first; at most `count`, perhaps none.

    Names are compared without regard to case. A dotted key also matches by its
    end: `lr` finds `optimizer.lr`, and `optim.lr` too.
    """
    scored = [(_likeness(name.lower(), other.lower()), other) for other in known]
    likely = [(score, other) for score, other in scored if score >= CUTOFF]
    return [other for _, other in sorted(likely, key=lambda pair: (-pair[0], pair[1]))[:count]]


def hint(name: str, known: Iterable[str]) -> str:
    """`Did you mean x?` for the nearest known name, or the empty string."""
    found = nearest(name, known)
    return f"Did you mean {found[0]}?" if found else ""


def _likeness(name: str, other: str) -> float:
    head, _, tail = other.rpartition(".")
    name_head, _, name_tail = name.rpartition(".")
    if not head:  # a key's parent is no spelling of it
        return _ratio(name, other) if not name_head else 0.0
    tails = _ratio(name_tail, tail)
    if not name_head:  # the key without its group: a little less sure than the full key
        return 0.95 * tails
    if tails == 1.0:  # the right key in another place
        return 0.7 + 0.3 * _ratio(name_head, head)
    # Long equal heads must not make up for unlike tails.
    return min(_ratio(name_head, head), tails)


def _ratio(name: str, other: str) -> float:
    return SequenceMatcher(None, name, other).ratio()
