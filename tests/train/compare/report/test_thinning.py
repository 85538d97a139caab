from __future__ import annotations

import math

from train.compare.report.thinning import kept


def test_a_short_curve_is_kept_whole() -> None:
    assert kept([3.0, 2.0, 1.0, 0.0], 4) == [0, 1, 2, 3]


def test_the_ends_and_the_extremes_of_each_stretch_stay() -> None:
    # Inside, the stretches are 1 to 4 and 5 to 8.
    values = [5.0, 1.0, 9.0, 2.0, 3.0, 4.0, 4.5, 0.5, 4.2, 4.0]
    assert kept(values, 6) == [0, 1, 2, 6, 7, 9]


def test_a_peak_of_a_long_curve_stays() -> None:
    values = [1.0] * 100_000
    values[54_321], values[12_345] = 50.0, -3.0
    chosen = kept(values, 200)
    assert {0, 12_345, 54_321, 99_999} <= set(chosen)
    assert len(chosen) <= 200
    assert chosen == sorted(chosen)


def test_what_is_not_finite_hides_no_peak_and_stays_a_gap() -> None:
    values = [1.0, math.nan, 2.0, math.nan, 3.0, math.nan, math.inf, math.nan, math.nan, 1.0]
    # 2 and 3 are the extremes of the first stretch; the second has no finite number.
    assert kept(values, 6) == [0, 2, 4, 5, 9]
