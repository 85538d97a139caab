from __future__ import annotations

import pytest

from train.check.clocks import offset


def test_the_shortest_trip_decides() -> None:
    # Asked at 100 ns and heard at 120 by a clock that is 50 ns ahead: the other said 60 at 110.
    # The longer trip, all of whose delay lay on the way back, would say 50 + 40.
    assert offset([(1000, 960, 1100), (100, 60, 120)]) == pytest.approx((50e-9, 10e-9))


def test_a_clock_that_is_behind_has_an_offset_below_zero() -> None:
    assert offset([(0, 2_000_000_001, 2)]) == pytest.approx((-2.0, 1e-9))
