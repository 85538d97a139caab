"""Node 0 waits for the others, and tells those that came when there will be no run."""

from __future__ import annotations

import json

import pytest
import torch.distributed as dist

from components.cluster.cluster import Cluster
from components.cluster.handshake import NoTicket, receive
from components.cluster.roll_call import Told
from train import assembly
from train.assembly import assemble, take_place
from train.node_gang import Place

GIVEN = json.dumps({"words": {"precision": "fp32", "parallel": "ddp"}, "config": {"seed": 1}})


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """In a store without a network; nobody is waited for in vain."""
    monkeypatch.setattr(assembly, "HEAR_S", 0.0)
    return Place(dist.HashStore(), "node0", 29500, None)


def cluster(node_rank: int, nnodes: int = 3) -> Cluster:
    return Cluster(
        device="cpu",
        nnodes=nnodes,
        node_rank=node_rank,
        rdzv_endpoint="node0:29500",
        start_timeout_s=0.1,
    )


def test_all_are_there(place: Place) -> None:
    for node in (1, 2):
        take_place(place, cluster(node), "127.0.0.1", 4, GIVEN)
    assert assemble(place, cluster(0), 4, GIVEN).interface == "lo"


def test_a_single_node_waits_for_nobody(place: Place) -> None:
    assert assemble(place, Cluster(device="cpu"), 4, GIVEN) is place


def test_who_is_missing_and_who_is_there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly.socket, "gethostname", lambda: "box")
    take_place(place, cluster(2), "127.0.0.1", 4, GIVEN)
    with pytest.raises(NoTicket) as raised:
        assemble(place, cluster(0), 4, GIVEN)
    said = str(raised.value)
    assert said.startswith("node 1 did not come to node0:29500 within 0.1 s")
    assert "there: node 0 (box), node 2 (box)." in said
    assert "cluster.node_rank=1" in said
    assert receive(place.store, 5.0).exit_code == 1


def test_nodes_with_other_numbers_of_ranks(place: Place) -> None:
    take_place(place, cluster(1, 2), "127.0.0.1", 8, GIVEN)
    with pytest.raises(NoTicket, match=r"node 1 \(.*\) would start 8 ranks and node 0 4"):
        assemble(place, cluster(0, 2), 4, GIVEN)


def test_nodes_with_other_words(place: Place) -> None:
    other = {"words": {"precision": "bf16", "parallel": "ddp"}, "config": {"seed": 2}}
    take_place(place, cluster(1, 2), "127.0.0.1", 4, json.dumps(other))
    with pytest.raises(NoTicket, match=r"node 1 \(.*\) was given other words") as raised:
        assemble(place, cluster(0, 2), 4, GIVEN)
    assert "(precision: fp32 -> bf16; seed: 1 -> 2), which all ranks follow" in str(raised.value)
    assert receive(place.store, 5.0).exit_code == 1


def test_a_node_that_is_refused_ends_the_wait(place: Place) -> None:
    place.store.set(assembly.REFUSED, "node 1 (box) is refused: no such interface")
    waiting = cluster(0)
    waiting.start_timeout_s = 600.0
    with pytest.raises(NoTicket, match=r"^node 1 \(box\) is refused: no such interface$"):
        assemble(place, waiting, 4, GIVEN)


def test_addresses_that_lead_away_say_which_interface() -> None:
    """One of the nodes may be on this machine: its loopback leads to no other."""
    told: dict[int, Told] = {0: {}, 1: {"address": "127.0.0.1"}, 2: {"address": "192.0.2.1"}}
    asked: list[str] = []

    def towards(address: str, port: int) -> str:
        asked.append(address)
        return "127.0.0.1"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "address_towards", towards)
        assert assembly._interface(told) == "lo"
    assert asked == ["192.0.2.1"]
