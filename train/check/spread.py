"""Which of several values that should be alike is the odd one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True)
class Spread(Generic[Name]):
    """How values lie about their median.

    Attributes:
        median: of all.
        odd: those far from it, as long as they are fewer than half.
        torn: values are far from it, and too many to call them odd: of two, nobody can say which.
    """

    median: float
    odd: tuple[Name, ...]
    torn: bool


def spread(
    values: Mapping[Name, float], far: Callable[[float, float], bool]
) -> Spread[Name] | None:
    """How values lie; None without any.

    Args:
        far: whether a value, its first argument, is far from the median, its second.
    """
    if not values:
        return None
    median = statistics.median(values.values())
    odd = tuple(name for name, value in values.items() if far(value, median))
    torn = 2 * len(odd) >= len(values)
    return Spread(median, () if torn else odd, torn)
