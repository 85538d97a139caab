from __future__ import annotations

import pytest

from train.nearest import hint, nearest

KEYS = ["steps", "seed", "optimizer", "optimizer.lr", "optimizer.eps", "model", "model.width"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("optimzer.lr", "optimizer.lr"),
        ("optimizer.lrr", "optimizer.lr"),
        ("lr", "optimizer.lr"),
        ("stpes", "steps"),
        ("Model.Width", "model.width"),
        ("optimizer.width", "model.width"),
    ],
)
def test_the_nearest_key(name: str, expected: str) -> None:
    assert nearest(name, KEYS) == [expected]


@pytest.mark.parametrize("name", ["banana", "optimizer.nesterov", "model.zzz"])
def test_nothing_is_better_than_a_far_name(name: str) -> None:
    assert nearest(name, KEYS) == []
    assert hint(name, KEYS) == ""


def test_best_first_and_no_more_than_asked() -> None:
    assert nearest("fp16x", ["bf16", "fp16", "fp32"], count=2) == ["fp16", "bf16"]
