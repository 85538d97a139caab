"""What nodes tell each other at the end."""

from __future__ import annotations

import threading

import pytest
import torch.distributed as dist

from components.cluster.handshake import Ticket
from components.cluster.nodes import Gone, Nodes, Word


def stores() -> tuple[dist.TCPStore, dist.TCPStore]:
    served = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return served, dist.TCPStore("127.0.0.1", served.port, is_master=False)


def test_node_0_decides_and_stays_until_the_other_knows() -> None:
    here, there = stores()
    zero, one = Nodes(here, "gang", 0, 2, 60.0), Nodes(there, "gang", 1, 2, 60.0)
    told: list[tuple[Word, Ticket | None]] = []
    listener = threading.Thread(target=lambda: told.append(one.verdict()))
    listener.start()
    again = Ticket("/runs/a", "next", "seed: 0\n", attempt=2)
    zero.decide({"cause": "why"}, again, listeners=1, timeout_s=20.0)
    listener.join(20)
    assert told == [({"cause": "why"}, again)]


@pytest.mark.parametrize("bad", [True, False])
def test_an_end_that_brings_the_others_down_or_not(bad: bool) -> None:
    here, there = stores()
    zero, one = Nodes(here, "gang", 0, 2, 60.0), Nodes(there, "gang", 1, 2, 60.0)
    assert not zero.lost()
    one.end({"kind": "preempted"}, bad)
    assert zero.lost() == bad
    assert zero.others(5.0) == {1: {"kind": "preempted"}}


def test_where_all_ranks_were() -> None:
    here, there = stores()
    zero, one = Nodes(here, "gang", 0, 2, 60.0), Nodes(there, "gang", 1, 2, 60.0)
    assert zero.sights() == []
    one.end({"kind": "stopped"}, True, [{"rank": 2}, {"rank": 3}])
    zero.end({"kind": "collective"}, True, [{"rank": 0}])
    assert zero.sights() == [{"rank": 0}, {"rank": 2}, {"rank": 3}]


def test_gangs_of_one_store_do_not_mix() -> None:
    here, there = stores()
    Nodes(there, "first", 1, 2, 60.0).end({"kind": "error"}, bad=True)
    assert not Nodes(here, "second", 0, 2, 60.0).lost()


def test_a_node_0_that_is_gone() -> None:
    here, there = stores()
    one = Nodes(there, "gang", 1, 2, 60.0)
    del here
    with pytest.raises(Gone):
        one.verdict()
    assert one.lost()
