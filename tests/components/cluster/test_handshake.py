"""One process decides, the others are told."""

from __future__ import annotations

import socket
import threading
import time

import psutil
import pytest
import torch.distributed as dist

from components.cluster import handshake
from components.cluster.cluster import Cluster
from components.cluster.handshake import (
    NoTicket,
    Ticket,
    announce,
    earlier_ticket,
    gang_store,
    local_store,
    node_store,
    own_address,
    receive,
)
from components.cluster.joined import Joined


def _cluster(port: int, node_rank: int, timeout_s: float = 20.0) -> Cluster:
    return Cluster(
        device="cpu",
        nnodes=2,
        node_rank=node_rank,
        rdzv_endpoint=f"127.0.0.1:{port}",
        start_timeout_s=timeout_s,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_node_that_comes_first_waits_to_be_told() -> None:
    port, told = free_port(), []

    def follow() -> None:
        told.append(receive(node_store(_cluster(port, 1)), 20.0))

    follower = threading.Thread(target=follow)
    follower.start()
    time.sleep(0.5)
    store = node_store(_cluster(port, 0))
    ticket = Ticket("/runs/a", "id", "seed: 0\n")
    announce(store, ticket)
    follower.join(20)
    assert told == [ticket]


def test_nobody_decides() -> None:
    start = time.monotonic()
    with pytest.raises(NoTicket, match=r"127\.0\.0\.1:\d+ did not answer within 1 s"):
        node_store(_cluster(free_port(), 1, timeout_s=1.0))
    assert time.monotonic() - start < 15


def test_a_name_that_resolves_late_is_waited_for_and_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = OSError(-2, "Name or service not known")
    answers: list[OSError | str] = [unknown, unknown, "127.0.0.1"]

    def towards(host: str, port: int) -> str:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(handshake, "address_towards", towards)
    assert own_address(_cluster(1, 1)) == ("127.0.0.1", "lo")
    assert capsys.readouterr().err.count("cannot be reached from node 1: Name or service") == 1


def test_a_name_that_never_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    def towards(host: str, port: int) -> str:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(handshake, "address_towards", towards)
    with pytest.raises(NoTicket, match=r"from node 1: Name or .* Give an address of node 0"):
        own_address(_cluster(1, 1, timeout_s=0.2))


def test_the_deciding_process_says_nothing() -> None:
    store = node_store(_cluster(free_port(), 0))
    with pytest.raises(NoTicket, match="no word"):
        receive(store, 0.2)


def test_a_gang_that_is_started_again_finds_the_last_ones_folder() -> None:
    """In the store that torchrun serves over all its restarts; a gang may end before it is told."""
    served = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    gangs = [
        Joined("torchrun", 0, 2, 0, 2, 1, "127.0.0.1", served.port, hosted=True, attempt=attempt)
        for attempt in range(3)
    ]
    assert earlier_ticket(gangs[0], 5.0) is None
    assert earlier_ticket(gangs[1], 5.0) is None
    ticket = Ticket("/runs/a", "id", "seed: 0\n")
    announce(gang_store(gangs[0], 5.0), ticket)
    assert earlier_ticket(gangs[0], 5.0) is None
    assert earlier_ticket(gangs[1], 5.0) == ticket
    assert earlier_ticket(gangs[2], 5.0) == ticket


def test_the_store_of_one_machine_is_seen_by_no_other() -> None:
    before = _listening()
    store, port = local_store()
    assert _listening() - before == {("127.0.0.1", port)}
    store.set("a", "b")
    assert dist.TCPStore("127.0.0.1", port, is_master=False).get("a") == b"b"


def test_the_store_of_several_listens_where_it_is_looked_for() -> None:
    port = free_port()
    before = _listening()
    store = node_store(_cluster(port, 0))
    assert _listening() - before == {("127.0.0.1", port)}
    again = node_store(_cluster(port, 0))  # the same server
    again.set("a", "b")
    assert store.get("a") == b"b"


def _listening() -> set[tuple[str, int]]:
    """Addresses at which this process takes connections."""
    found = psutil.Process().net_connections()
    return {(c.laddr.ip, c.laddr.port) for c in found if c.status == psutil.CONN_LISTEN}
