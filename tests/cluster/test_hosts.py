"""The hosts themselves: what they see of each other, and that nothing of them stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.hosts import NET, PREFIX, Host, ip, remove_left_over

pytestmark = pytest.mark.netns

SERVE = """
import socket
with socket.create_server(("", 5000)) as server:
    print("ready", flush=True)
    while True:
        server.accept()[0].close()
"""
KNOCK = "import socket; socket.create_connection(('node0', 5000), 1.0)"


def test_names_and_addresses_of_their_own(hosts: list[Host]) -> None:
    ask = "hostname; getent hosts node0; ip -br -4 addr show eth0"
    said = [
        subprocess.run(host.runs("sh", "-c", ask), capture_output=True, text=True).stdout.split()
        for host in hosts
    ]
    assert [words[0] for words in said] == ["node0", "node1"]
    assert [words[1:3] for words in said] == [[f"{NET}.1", "node0"]] * 2
    assert [words[-1] for words in said] == [f"{NET}.1/24", f"{NET}.2/24"]


def test_a_cable_that_is_cut_and_mended(hosts: list[Host]) -> None:
    def reached() -> bool:
        knock = hosts[1].runs(sys.executable, "-c", KNOCK)
        return subprocess.run(knock, capture_output=True).returncode == 0

    command = hosts[0].runs(sys.executable, "-c", SERVE)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        assert reached()
        hosts[1].cut()
        assert not reached()
        hosts[1].heal()
        assert reached()
    finally:
        server.kill()
        server.communicate()


def test_a_folder_in_the_place_of_another(hosts: list[Host], tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    command = hosts[1].runs("touch", str(here / "mine"), mounts={here: there})
    subprocess.run(command, check=True)
    assert ([*here.iterdir()], [*there.iterdir()]) == ([], [there / "mine"])


def test_what_a_killed_session_has_left_goes(hosts: list[Host]) -> None:
    left = f"{PREFIX}-{os.getpid()}-1-node0"  # this process began later than that
    ip("netns", "add", left)
    lodger = subprocess.Popen(["nsenter", f"--net=/run/netns/{left}", "sleep", "600"])
    while str(lodger.pid) not in ip("netns", "pids", left).split():
        time.sleep(0.01)
    remove_left_over()
    assert lodger.wait(20) == -9
    names = {line.split()[0] for line in ip("netns", "list").splitlines()}
    assert left not in names
    assert {host.namespace for host in hosts} <= names
