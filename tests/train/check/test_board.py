from __future__ import annotations

import pytest
import torch.distributed as dist

from train.check.board import Board
from train.failure import Failure


@pytest.fixture
def board() -> Board:
    return Board(dist.HashStore())


def test_the_last_stage_of_each_rank_stands(board: Board) -> None:
    assert board.said() == 0
    board.say(0, "clocks")
    board.say(1, "clocks")
    board.say(1, "link 0-1")
    assert board.stages(3) == {0: "clocks", 1: "link 0-1"}
    assert board.said() == 3


def test_results_come_by_rank(board: Board) -> None:
    board.hand_in(1, {"a": 1})
    assert board.results(2, timeout_s=0.0) == [{"a": 1}]
    board.hand_in(0, {"a": 0})
    assert board.results(2, timeout_s=60.0) == [{"a": 0}, {"a": 1}]


def test_failures_are_handed_on_whole(board: Board) -> None:
    failed = Failure(1, "error", "RuntimeError: no", 12.5)
    board.fail(failed)
    assert board.failures(2) == [failed]
