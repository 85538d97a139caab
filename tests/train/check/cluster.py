"""Findings of imaginary ranks, all alike but for what a test changes."""

from __future__ import annotations

from typing import Any


def rank(number: int, node: int = 0, **changes: Any) -> dict[str, Any]:
    """One rank as it stands in a report."""
    return {
        "rank": number,
        "node": node,
        "host": f"host{node}",
        "device": "a CPU",
        "memory_free_bytes": 6e9,
        "memory_total_bytes": 8e9,
        "cores": 4,
        "threads": 2,
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "clock_offset_s": 0.0,
        "clock_uncertainty_s": 0.0001,
        "flops": {"fp32": 100e9, "bf16": 50e9},
        "copy_bytes_per_s": 10e9,
    } | changes


def link(first: int, second: int, **changes: Any) -> dict[str, Any]:
    """One link as it stands in a report."""
    return {
        "ranks": [first, second],
        "latency_s": 100e-6,
        "bytes": 4096,
        "bytes_per_s": 1e9,
        "across": False,
    } | changes


def flops(fp32: float) -> dict[str, float]:
    """Rates of products, in 1e9 a second; that in bf16 is as everybody's."""
    return {"fp32": fp32 * 1e9, "bf16": 50e9}
