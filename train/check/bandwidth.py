"""From a message's size and time to its bandwidth.

The names and formulas are those of the nccl-tests' notes on performance
(doc/PERFORMANCE.md there), so that figures can be held against theirs.
"""

from __future__ import annotations


def algorithm_bandwidth(size: int, seconds: float) -> float:
    """Bytes per second of the whole message: what a program waits for."""
    return size / seconds


def bus_bandwidth(name: str, size: int, seconds: float, ranks: int) -> float:
    """Bytes per second that each rank's link carries at least, whatever the number of ranks.

    Of n ranks each must send and receive 2 (n-1)/n of the message in an all-reduce, and (n-1)/n
    of it in an all-gather or reduce-scatter, whose size is that of all n parts together. In a
    broadcast and in the ring it is the message.
    """
    shares = {
        "all-reduce": 2 * (ranks - 1) / ranks,
        "all-gather": (ranks - 1) / ranks,
        "reduce-scatter": (ranks - 1) / ranks,
    }
    return algorithm_bandwidth(size, seconds) * shares.get(name, 1.0)
