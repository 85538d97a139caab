"""The arithmetic of a step: two sizes give the third, contradictions show their numbers."""

from __future__ import annotations

import pytest

from components.errors import ConfigError
from train.sizes import Sizes, solve


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((32, None, None, 2), (32, 16, 1, 2)),
        ((8, 2, None, 2), (8, 2, 2, 2)),
        ((8, None, 2, 2), (8, 2, 2, 2)),
        ((None, 2, 3, 4), (24, 2, 3, 4)),
        ((None, 2, None, 4), (8, 2, 1, 4)),
        ((16, 4, 2, 2), (16, 4, 2, 2)),
    ],
)
def test_two_sizes_give_the_third(
    given: tuple[int | None, int | None, int | None, int], expected: tuple[int, int, int, int]
) -> None:
    assert solve(*given) == Sizes(*expected)


def test_a_strategy_s_own_accumulation_stands_in_for_an_open_one() -> None:
    assert solve(32, None, None, 1, default_accumulation=4) == Sizes(32, 8, 4, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((16, 2, 2, 2), ["global_batch_size=16", "2x2x2=8"]),
        ((8, None, 3, 1), ["global_batch_size=8", "accumulation=3", "global_batch_size=6 or"]),
        ((10, 4, None, 2), ["global_batch_size=10", "4 x 2 = 8", "global_batch_size=8 or"]),
        ((2, None, None, 4), ["global_batch_size=2", "4", "global_batch_size=4"]),
        ((None, None, 2, 2), ["global_batch_size", "micro_batch_size"]),
    ],
)
def test_contradictions_are_refused_with_the_arithmetic(
    given: tuple[int | None, int | None, int | None, int], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as refusal:
        solve(*given)
    assert all(word in str(refusal.value) for word in words)
