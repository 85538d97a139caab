"""An elastic run is tried again as long as it comes further."""

from __future__ import annotations

from train.elastic_bounds import Bounds

TWICE = "not tried again: an earlier attempt failed after step 7 too"


def test_no_restart_is_allowed_by_default() -> None:
    assert Bounds(0).after_failure(7) == ""


def test_a_failure_at_a_later_step_is_tried_again_as_often_as_allowed() -> None:
    bounds = Bounds(2)
    assert [bounds.after_failure(step) for step in (7, 8, 9)] == [None, None, ""]


def test_a_failure_that_comes_no_further_is_the_last() -> None:
    assert [*map(Bounds(5).after_failure, (7, 7))] == [None, TWICE]
    assert [*map(Bounds(5).after_failure, (7, 6))] == [None, TWICE]


def test_a_node_may_be_lost_as_long_as_the_run_comes_further() -> None:
    bounds = Bounds(0)
    assert [bounds.after_loss(1, step) for step in (4, 9, 12)] == [None, None, None]
    assert bounds.after_loss(2, 12) is None  # another node
    assert bounds.after_loss(1, 12) == "was lost twice by step 12, and is not taken in again"
