"""What may be wrong when several hosts start: said in time, by whom, and to all."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.cluster.hosts import Host
from tests.cluster.nodes import PORT, typed_on
from tests.faults.words import SMALL
from tests.runs import Outcome

pytestmark = pytest.mark.netns

SHORT = (*SMALL, "steps=2", "eval_every=0")


def seconds(outcome: Outcome) -> float:
    """From the moment when the folder was taken to the end."""
    status = outcome.run.status
    began, ended = (datetime.fromisoformat(status[key]) for key in ("started", "ended"))
    return (ended - began).total_seconds()


def test_a_node_that_never_comes(tmp_path: Path, hosts: list[Host]) -> None:
    """Not the collectives' time-out counts, and no rank is started in vain."""
    words = (*SHORT, "cluster.start_timeout_s=4", "cluster.timeout_s=600")
    with typed_on(hosts[:1], tmp_path, *words, nnodes=2) as (command,):
        outcome = command.outcome(90)
        command.gone_after(20)
    assert outcome.code == 1
    assert outcome.run.status["error"]["cause"] == (
        f"node 1 did not come to node0:{PORT} within 4 s (cluster.start_timeout_s); there: node 0 "
        "(node0). Type the same command on the missing with cluster.node_rank=1, and see that the "
        "address can be reached from there."
    )
    assert 4 <= seconds(outcome) < 14
    assert list((outcome.run.folder / "logs").glob("rank-*")) == []


def test_the_first_node_never_comes(tmp_path: Path, hosts: list[Host]) -> None:
    """Nor is it the host that the name leads to."""
    mistaken = tmp_path / "names"
    mistaken.write_text("127.0.0.1 localhost node0\n")
    with typed_on(
        hosts[1:],
        tmp_path,
        *SHORT,
        "cluster.start_timeout_s=2",
        nnodes=2,
        own=lambda node: ("cluster.node_rank=1",),
        names={0: mistaken},
    ) as (command,):
        outcome = command.outcome(90)
    assert outcome.code == 1
    assert f"node 1: the store at node0:{PORT} did not answer within 2 s" in outcome.stderr
    assert "here node0 is 127.0.0.1, this machine itself" in outcome.stderr


def test_a_first_node_whose_own_name_is_its_loopback(tmp_path: Path, hosts: list[Host]) -> None:
    """As Debian gives it in /etc/hosts: ranks tell each other other addresses than that."""
    usual = tmp_path / "names"
    usual.write_text(f"127.0.0.1 localhost node0\n{hosts[1].address} node1\n")
    with typed_on(hosts, tmp_path, *SHORT, "cluster.timeout_s=60", names={0: usual}) as commands:
        for command in commands:
            command.outcome(120).completed()


def test_an_interface_that_one_node_has_not(tmp_path: Path, hosts: list[Host]) -> None:
    """That node is refused, and the other does not wait for it."""
    with typed_on(
        hosts, tmp_path, *SHORT, own=lambda node: ("cluster.interface=ib7",) if node else ()
    ) as commands:
        zero, one = (command.outcome(90) for command in commands)
    cause = "cluster.interface=ib7 is not on node 1 (node1). It has lo, eth0"
    assert one.code == 2
    assert one.stderr.startswith(f"refused: {cause}")
    assert zero.code == 1
    assert zero.run.status["error"]["cause"].startswith(f"node 1 (node1) is refused: {cause}")


def test_a_name_that_leads_nowhere(tmp_path: Path, hosts: list[Host]) -> None:
    words = (*SHORT, "cluster.start_timeout_s=1")
    with typed_on(hosts, tmp_path, *words, endpoint=f"nobody:{PORT}") as commands:
        outcomes = [command.outcome(90) for command in commands]
    for node, outcome in enumerate(outcomes):
        assert outcome.code == 1
        said = f"cluster.rdzv_endpoint=nobody:{PORT}: nobody cannot be reached from node {node}: "
        assert said in outcome.stderr


def test_a_port_that_is_taken(tmp_path: Path, hosts: list[Host]) -> None:
    taking = (
        "import socket, sys\n"
        f"taken = socket.create_server(('', {PORT}))\n"
        "print('taken', flush=True)\n"
        "sys.stdin.read()"
    )
    other = subprocess.Popen(
        hosts[0].runs(sys.executable, "-c", taking),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        with typed_on(hosts[:1], tmp_path, *SHORT, nnodes=2) as (command,):
            outcome = command.outcome(90)
    finally:
        other.communicate()
    assert outcome.code == 1
    assert outcome.run.status["error"]["cause"] == (
        f"the store at node0:{PORT} cannot be served here: port {PORT} is taken. "
        "Choose another on all nodes, or end what has it"
    )
