"""Fewer points of a long curve, without a loss of its peaks."""

from __future__ import annotations

import math
from collections.abc import Sequence


def kept(values: Sequence[float], most: int) -> list[int]:
    """Indices of at most `most` points of a curve, in order: its shape and extremes stay.

    The points are cut into stretches of equal length; of each, the lowest and the highest stay,
    and of the whole the first and the last. A stretch without a finite number keeps its first
    point, so that a gap stays a gap.

    Args:
        most: 4 or more.
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = (most - 2) // 2
    inner = range(1, count - 1)
    chosen = {0, count - 1}
    for number in range(stretches):
        start = number * len(inner) // stretches
        end = (number + 1) * len(inner) // stretches
        here = [index for index in inner[start:end] if math.isfinite(values[index])]
        if here:
            chosen.add(min(here, key=values.__getitem__))
            chosen.add(max(here, key=values.__getitem__))
        elif start < end:
            chosen.add(inner[start])
    return sorted(chosen)
