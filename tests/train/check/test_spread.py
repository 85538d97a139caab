from __future__ import annotations

import pytest

from train.check.spread import Spread, spread


def far(value: float, median: float) -> bool:
    return abs(value - median) > 5


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([10], Spread(10, (), False)),
        ([10, 12], Spread(11, (), False)),
        ([10, 30], Spread(20, (), True)),
        ([10, 10, 30], Spread(10, (2,), False)),
        ([10, 20, 30], Spread(20, (), True)),
        ([10, 10, 30, 30], Spread(20, (), True)),
        ([10, 10, 10, 30], Spread(10, (3,), False)),
    ],
)
def test_those_far_from_the_median_are_odd_as_long_as_they_are_few(
    values: list[float], found: Spread[int]
) -> None:
    assert spread(dict(enumerate(values)), far) == found


def test_nothing_lies_nowhere() -> None:
    assert spread({}, far) is None
