from __future__ import annotations

import math

import pytest

from train.compare.report.curves import Losses, Point
from train.compare.report.parity import deviation


def run(seed: int, losses: dict[int, float]) -> Losses:
    return Losses(seed, [Point(step, loss, None, None, 0.0) for step, loss in losses.items()])


def test_only_steps_of_both_count() -> None:
    found = deviation([run(0, {1: 4.0, 2: 3.3, 4: 2.0})], [run(0, {2: 3.0, 3: 2.5, 4: 2.0})])
    assert found.steps == [2, 4]
    assert found.signed == pytest.approx([0.3, 0.0])
    assert found.relative == pytest.approx([0.1, 0.0])
    assert found.relative[1] == 0


def test_seeds_are_paired() -> None:
    cell = [run(0, {1: 4.0}), run(1, {1: 6.0}), run(7, {1: 99.0})]
    found = deviation(cell, [run(1, {1: 5.0}), run(0, {1: 4.4})])
    # Seed 0: 4 - 4.4, an eleventh; seed 1: 6 - 5, a fifth; seed 7 has no counterpart.
    assert found.signed == pytest.approx([0.3])
    assert found.relative == pytest.approx([0.2])


def test_without_a_common_seed_there_is_nothing() -> None:
    assert deviation([run(0, {1: 4.0})], [run(1, {1: 4.0})]).steps == []


def test_a_loss_that_is_not_finite_gives_no_number() -> None:
    found = deviation([run(0, {1: math.nan, 2: 2.0})], [run(0, {1: 1.0, 2: 2.0})])
    assert math.isnan(found.relative[0])
    assert found.relative[1] == 0


def test_a_reference_of_zero() -> None:
    assert deviation([run(0, {1: 0.5})], [run(0, {1: 0.0})]).relative == [math.inf]
    assert deviation([run(0, {1: 0.0})], [run(0, {1: 0.0})]).relative == [0.0]
