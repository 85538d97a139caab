from __future__ import annotations

import io
from typing import Any

import pytest

from tests.train.check.cluster import link, rank
from train.check.table import duration, number, print_report, size_name

SIZES = [1024 * 16**power for power in range(5)]


def _report(odd: list[str], ranks: int = 3) -> dict[str, Any]:
    timed = [
        {
            "name": name,
            "bytes": size,
            "seconds": 0.001234,
            "algorithm_bytes_per_s": 123.4e9,
            "bus_bytes_per_s": 45.6e9,
        }
        for name in ("all-reduce", "all-gather")
        for size in SIZES[: 4 if name == "all-gather" else 5]
    ]
    return {
        "cluster": {"backend": "gloo"},
        "ranks": [rank(n, n // 2) for n in range(ranks)],
        "collectives": [*timed, {"name": "reduce-scatter", "not_offered": "no"}] if timed else [],
        "links": [link(0, 1), link(1, 2, across=True, bytes_per_s=0.5e9)],
        "odd": odd,
    }


def _printed(report: dict[str, Any]) -> str:
    out = io.StringIO()
    print_report(report, out)
    return out.getvalue()


def test_a_report_is_plain_and_fits_80_columns() -> None:
    text = _printed(_report(["rank 2: " + "very " * 20 + "slow"]))
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_a_report_names_nodes_rates_times_and_what_is_odd() -> None:
    text = _printed(_report(["link 1-2 is slow"]))
    lines = [line.split() for line in text.splitlines()]
    assert "node 0 (host0), ranks 0-1: a CPU; 4 cores, 2 threads a rank" in text
    assert "node 1 (host1), rank 2: a CPU; 4 cores, 2 threads a rank" in text
    assert ["0", "6.0", "of", "8.0", "100", "50", "10", "+0.00", "±", "0.10"] in lines
    assert ["all-reduce", *["1.23", "ms"] * 5] in lines
    assert ["all-gather", *["45.6"] * 4, "-"] in lines  # the largest was left out
    assert "reduce-scatter: not offered by gloo" in text
    assert "1 link within a node: 100 µs, 1 GB/s" in text
    assert "1 link between nodes: 100 µs, 0.5 GB/s" in text
    assert "odd: link 1-2 is slow" in text
    assert "nothing odd" not in text


def test_a_report_without_anything_odd_says_so() -> None:
    assert "\nnothing odd\n" in _printed(_report([]))


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (45.67e-6, "45.7 µs")]
)
def test_a_duration_has_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1234"), (1.2345, "1.23"), (0.00123, "0.00123"), (6e-5, "0.00006")]
)
def test_a_number_is_never_written_with_an_exponent(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("size", "text"), [(12, "12 B"), (1020, "1 KiB"), (262140, "256 KiB"), (64 * 2**20, "64 MiB")]
)
def test_sizes_are_named_by_the_nearest_whole_unit(size: int, text: str) -> None:
    assert size_name(size) == text


def test_what_a_models_step_attains_is_told_where_it_was_measured() -> None:
    report = _report([])
    assert "attains" not in _printed(report)
    for one, shares in zip(report["ranks"], ((0.5, 0.9), (0.75, 0.9), (0.6, 0.9)), strict=True):
        one["attained"] = dict(zip(one["flops"], shares, strict=False))
    first, *others = report["ranks"][0]["flops"]
    assert f"attains of these rates: {first} 50% to 75%" in _printed(report)
    assert all(f"{name} 90%" in _printed(report) for name in others)
