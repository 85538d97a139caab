"""The global order: a permutation per epoch, and windows that any layout cuts alike."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from components.data.order import GlobalOrder
from components.errors import ConfigError


def test_each_epoch_is_another_permutation_of_all_samples() -> None:
    order = GlobalOrder(12, 4, seed=3)
    epochs = [[order.window(3 * epoch + i)[1].tolist() for i in range(3)] for epoch in range(3)]
    flat = [[i for ids in windows for i in ids] for windows in epochs]
    assert [sorted(ids) for ids in flat] == [list(range(12))] * 3
    assert flat[0] != flat[1] != flat[2] != flat[0]


def test_the_order_depends_on_the_seed_and_on_nothing_asked_before() -> None:
    forward = GlobalOrder(20, 4, seed=7)
    windows = [forward.window(step) for step in range(15)]
    backward = GlobalOrder(20, 4, seed=7)
    for step in reversed(range(15)):
        epoch, ids = backward.window(step)
        assert epoch == windows[step][0] == step // 5
        assert ids.tolist() == windows[step][1].tolist()
    other = GlobalOrder(20, 4, seed=8)
    assert not np.array_equal(other.window(0)[1], windows[0][1])


def test_the_global_batch_does_not_change_the_order_of_an_epoch() -> None:
    by_two, by_six = GlobalOrder(12, 2, seed=1), GlobalOrder(12, 6, seed=1)
    assert (
        np.concatenate([by_two.window(i)[1] for i in range(6)]).tolist()
        == np.concatenate([by_six.window(i)[1] for i in range(2)]).tolist()
    )


def test_unshuffled_takes_samples_as_numbered() -> None:
    order = GlobalOrder(5, 2, seed=0, shuffle=False)
    assert [order.window(step)[1].tolist() for step in range(3)] == [[0, 1], [2, 3], [0, 1]]


def test_partial_keeps_the_rest_as_a_smaller_window() -> None:
    order = GlobalOrder(5, 2, seed=0, shuffle=False, epoch_end="partial")
    assert order.steps_per_epoch == 3
    assert [order.window(step)[1].tolist() for step in range(4)] == [[0, 1], [2, 3], [4], [0, 1]]
    assert order.unused == 0
    assert [order.samples(steps) for steps in range(5)] == [0, 2, 4, 5, 7]


def test_drop_says_once_what_it_leaves_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        order = GlobalOrder(5, 2, seed=0)
        order.tell_unused()
    assert order.steps_per_epoch == 2
    assert "1 of 5 samples unused per epoch" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        for step in range(6):
            order.window(step)
    assert not caplog.records
    assert [order.samples(steps) for steps in range(4)] == [0, 2, 4, 6]


def test_drop_refuses_an_epoch_without_a_step() -> None:
    with pytest.raises(ConfigError, match=r"data.*3 samples.*global_batch_size=4"):
        GlobalOrder(3, 4, seed=0)
    assert GlobalOrder(3, 4, seed=0, epoch_end="partial").steps_per_epoch == 1
    with pytest.raises(ConfigError, match="no samples"):
        GlobalOrder(0, 4, seed=0, epoch_end="partial")
