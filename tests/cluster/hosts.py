"""Several hosts on one machine: network namespaces whose cables meet in a switch, a bridge.

Each has a host name, an address and an `/etc/hosts` of its own; all share the machine's files,
save for folders that a command has put another in the place of. Nothing of the machine's own
network is touched: the switch is in a namespace too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PREFIX = "shardlab"

NET = "192.168.77"

ENTER = """
hostname "$1"; mount --bind "$2" /etc/hosts; shift 2
while [ "$1" != -- ]; do mount --bind "$2" "$1"; shift 2; done
shift; exec "$@"
"""
"""In a shell with mounts of its own: name, names' file, pairs of folders, `--`, the command."""


def missing() -> str | None:
    """What this machine lacks to make hosts; None when it can."""
    lacks = [tool for tool in ("ip", "nsenter", "unshare", "mount") if shutil.which(tool) is None]
    if lacks:
        return f"without {' and '.join(lacks)}"
    if os.geteuid() != 0:
        return "without root"
    name = _own("try")
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"where no network namespace can be made ({made.stderr.strip()})"
    ip("netns", "del", name)
    return None


def ip(*words: str) -> str:
    """What `ip` says. It has to do as told."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Host:
    """One of the hosts.

    Attributes:
        name: its host name, `node0` for the first.
        address: of its interface `eth0`.
        namespace: its network.
        names: its `/etc/hosts`.
        switch: the namespace of the switch.
    """

    name: str
    address: str
    namespace: str
    names: Path
    switch: str

    def runs(
        self, *command: str, names: Path | None = None, mounts: Mapping[Path, Path] | None = None
    ) -> tuple[str, ...]:
        """The words by which a command runs there, as one process: the command itself.

        Args:
            names: another `/etc/hosts`.
            mounts: folders that this command finds in the place of others, by those.
        """
        pairs = [str(path) for pair in (mounts or {}).items() for path in pair]
        own = ("nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--uts", "--mount")
        shell = ("sh", "-e", "-c", ENTER, "sh", self.name, str(names or self.names))
        return (*own, *shell, *pairs, "--", *command)

    def cut(self) -> None:
        """Take its cable out of the switch. The host itself sees nothing of that."""
        ip("-n", self.switch, "link", "set", self.name, "nomaster")

    def heal(self) -> None:
        """Put the cable back."""
        ip("-n", self.switch, "link", "set", self.name, "master", "switch", "up")


@contextmanager
def network(folder: Path, count: int = 2) -> Iterator[list[Host]]:
    """Hosts node0, node1, ... that reach each other at 192.168.77.1, .2, ..., and nothing else.

    Args:
        folder: for their files.
    """
    remove_left_over()
    switch, names = _own("switch"), folder / "hosts"
    hosts = [
        Host(f"node{i}", f"{NET}.{i + 1}", _own(f"node{i}"), names, switch) for i in range(count)
    ]
    lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in hosts)]
    names.write_text("\n".join(lines) + "\n")
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "switch", "type", "bridge", "forward_delay", "0")
        ip("-n", switch, "link", "set", "switch", "up")
        for host in hosts:
            _plug_in(host)
        yield hosts
    finally:
        for namespace in (switch, *(host.namespace for host in hosts)):
            with suppress(AssertionError):
                ip("netns", "del", namespace)


def _plug_in(host: Host) -> None:
    ip("netns", "add", host.namespace)
    ip("-n", host.namespace, "link", "set", "lo", "up")
    pair = ("type", "veth", "peer", "name", "eth0", "netns", host.namespace)
    ip("-n", host.switch, "link", "add", host.name, *pair)
    ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
    ip("-n", host.namespace, "link", "set", "eth0", "up")
    host.heal()


def _own(label: str) -> str:
    """A name for a namespace, from which one sees whether this session is over."""
    started = int(psutil.Process().create_time())
    return f"{PREFIX}-{os.getpid()}-{started}-{label}"


def remove_left_over() -> None:
    """Remove what sessions have left that were killed: their namespaces, and who lives there."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        prefix, *words = name.split("-")
        if prefix != PREFIX or len(words) != 3 or _goes_on(int(words[0]), int(words[1])):
            continue
        for pid in ip("netns", "pids", name).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        ip("netns", "del", name)


def _goes_on(pid: int, started: int) -> bool:
    with suppress(psutil.Error):
        return int(psutil.Process(pid).create_time()) == started
    return False
