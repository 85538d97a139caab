"""The largest micro-batch that a device has room for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

LARGEST = 2**20
"""Samples beyond which nobody looks."""


def largest_fitting(memory: int, peak: Callable[[int], int]) -> int:
    """The most samples whose peak is within `memory` bytes; 0 when one is too many.

    Between sizes that are traced the peak is a maximum of linear functions, so few tries
    around a straight line are enough.

    Args:
        peak: bytes of a micro-batch of so many samples; grows with them.
    """
    peak = cache(peak)
    low, high = 0, 1
    while high <= LARGEST and peak(high) <= memory:
        low, high = high, high * 4
    if high > LARGEST:
        return low
    while high - low > 1:
        middle = _guess(low, high, memory, peak) if low else (low + high) // 2
        if peak(middle) <= memory:
            low = middle
        else:
            high = middle
    return low


def samples(most: int) -> str:
    """The largest micro-batch in words."""
    return f"{most:,}" if most < LARGEST else f"over {LARGEST:,}"


def _guess(low: int, high: int, memory: int, peak: Callable[[int], int]) -> int:
    """Where a straight line through both ends meets the memory, inside."""
    below, above = peak(low), peak(high)
    at = low + (high - low) * (memory - below) // max(above - below, 1)
    return min(max(at, low + 1), high - 1)
