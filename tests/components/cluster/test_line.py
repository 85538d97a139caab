"""A node's line to node 0, over a real store."""

from __future__ import annotations

import time

import pytest
import torch.distributed as dist

from components.cluster.line import Line
from components.cluster.nodes import Gone
from components.cluster.roll import Comer, Roll
from components.cluster.roster import Roster

ZERO = Comer(0, 0, "a", ranks=2, device="cpu")
ONE = Comer(0, 1, "b", ranks=2, device="cpu")
LIMIT_S = 60.0


def stores() -> tuple[dist.TCPStore, dist.TCPStore]:
    served = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return served, dist.TCPStore("127.0.0.1", served.port, is_master=False)


def polled(roster: Roster, others: int) -> list[Comer]:
    """Who is here besides node 0, once there are so many."""
    deadline = time.monotonic() + LIMIT_S
    while len(roster.here) != others + 1 and time.monotonic() < deadline:
        roster.poll()
        time.sleep(0.02)
    return roster.here[1:]


def test_a_node_comes_hears_and_takes_its_leave() -> None:
    here, there = stores()
    roster, line = Roster(here, ZERO, 4, lambda line: None), Line(there)
    roster.say(folder="/runs/a")
    assert line.until(lambda: line.roll, LIMIT_S)
    assert line.roll == Roll("/runs/a")
    line.come(ONE)
    (one,) = polled(roster, 1)
    assert (one.number, one.node_rank, one.host) == (line.number, 1, "b")
    line.say(attempt=3, word={"cause": "why"}, bad=True, left="was warned and left")
    assert polled(roster, 0) == []
    assert roster.gone == {one.number: "was warned and left"}
    assert roster.last_sign(one).word == {"cause": "why"}
    line.close()


def test_the_end_is_waited_for_until_all_have_heard() -> None:
    here, there = stores()
    roster, line = Roster(here, ZERO, 4, lambda line: None), Line(there)
    line.come(ONE)
    polled(roster, 1)
    start = time.monotonic()
    roster.finish({"cause": "why"}, 1, timeout_s=LIMIT_S)
    assert time.monotonic() - start < LIMIT_S
    assert line.until(lambda: line.roll and line.roll.over, LIMIT_S)
    assert line.roll is not None
    assert (line.roll.word, line.roll.exit_code) == ({"cause": "why"}, 1)
    line.close()


def test_one_that_has_not_come_is_told_too_that_there_is_no_run() -> None:
    here, there = stores()
    line = Line(there)
    Roster(here, ZERO, 2, lambda line: None).finish(None, 2, timeout_s=LIMIT_S, others=1)
    assert line.until(lambda: line.roll and line.roll.over, LIMIT_S)
    line.come(ONE)
    assert line.number == 0


def test_a_node_0_that_is_gone() -> None:
    here, there = stores()
    line = Line(there)
    line.come(ONE)
    del here
    with pytest.raises(Gone):
        line.until(lambda: False, LIMIT_S)
