from __future__ import annotations

import math

import pytest

from train.compare.report import numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [(24147.9, "24,148"), (188.656, "188.7"), (0.0016501, "0.001650"), (-2.0, "−2.000"), (0, "0")],  # noqa: RUF001
)
def test_four_digits(value: float, expected: str) -> None:
    assert numbers.significant(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.25, "+0.2500"), (-3e-8, "−3.0e−08"), (0.0, "0"), (math.nan, "NaN"), (-math.inf, "−∞")],  # noqa: RUF001
)
def test_differences_have_a_sign(value: float, expected: str) -> None:
    assert numbers.SIGNED.text(value) == expected


def test_a_column_has_one_unit() -> None:
    scale = numbers.byte_scale([3 * 1e9, 8 * 1e9, 5e6])
    assert scale.with_unit(8 * 1e9) == "8.000 GB"
    assert scale.text(5e8) == "0.5000"
    assert scale.spread_text(2.5e8) == "0.25"
    assert numbers.time_scale([0.032, 0.32, 0.0355]).with_unit(0.0355) == "35.50 ms"


def test_what_is_not_known_is_a_dash() -> None:
    assert numbers.LOSS.with_unit(None) == "–"  # noqa: RUF001
