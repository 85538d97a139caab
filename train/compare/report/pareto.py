"""Which cells no other beats in both memory and speed."""

from __future__ import annotations

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the (memory, speed) points that no other beats, from least memory to most.

    One point beats another when it needs no more memory and is no slower, and is better in one of
    the two. Of equal points all are kept.
    """
    order = sorted(range(len(points)), key=lambda index: (points[index][0], -points[index][1]))
    chosen: list[int] = []
    for index in order:
        memory, speed = points[index]
        if not chosen or speed > points[chosen[-1]][1] or points[chosen[-1]] == (memory, speed):
            chosen.append(index)
    return chosen
