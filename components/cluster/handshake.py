"""How one process tells the others which run they are in.

The folder of a run, its resolved config and its rendezvous name are decided
once, by rank 0 of an outside launcher's gang or by the controller of node 0,
and reach the others through a store that both can see. Nobody else composes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta

import torch.distributed as dist

from components.cluster.answering import Answering
from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.cluster.network import address_towards, interface_of, listening_address

ASK_S = 0.05
"""How often the store is asked for what is awaited."""

ANSWER_S = 10.0
"""A store that does not answer for so long is taken for gone, and its process with it."""

KNOCK_S = 5.0
"""How long one attempt to connect may take."""

KNOCK_AGAIN_S = 0.1
"""How long until the next attempt."""

KEY = "shardlab/ticket"
HEARD = "shardlab/heard"


class NoTicket(Exception):
    """The deciding process did not tell in time, or is not there."""


@dataclass(frozen=True)
class Ticket:
    """What the others need to know.

    Attributes:
        folder: absolute path of the run's folder.
        run_id: names this gang, which another attempt does not share.
        config: the resolved config as YAML, for nodes that do not share a file system.
        attempt: which start of the run it is, from 1.
        exit_code: what to exit with when there is no run to join; then nothing else holds.
    """

    folder: str = ""
    run_id: str = ""
    config: str = ""
    attempt: int = 1
    exit_code: int | None = None


def gang_store(gang: Joined, timeout_s: float) -> dist.Store:
    """The store of a gang's ranks; rank 0 serves it where the launcher does not.

    Raises:
        NoTicket: when it cannot be reached in time.
    """
    serves = gang.rank == 0 and not gang.hosted
    store = _store(gang.host, gang.port, serves, timeout_s, None)
    if serves:
        _kept.append(store)
    # A gang that was started again must not read what the last one was told.
    return dist.PrefixStore(f"shardlab/{gang.attempt}", store)


def earlier_ticket(gang: Joined, timeout_s: float) -> Ticket | None:
    """What the last gang was told that the same launcher started before this one.

    Raises:
        NoTicket: when the store cannot be reached in time.
    """
    if not gang.hosted:  # the store has ended with that gang's rank 0
        return None
    for attempt in reversed(range(gang.attempt)):
        store = gang_store(replace(gang, attempt=attempt), timeout_s)
        if store.check([KEY]):
            return Ticket(**json.loads(store.get(KEY)))
    return None


_kept: list[dist.Store] = []
"""The server ends with the last store of its process that speaks for it; others need it on."""


def node_store(cluster: Cluster) -> dist.Store:
    """The store at `cluster.rdzv_endpoint`, served by node 0, that all nodes share.

    Raises:
        NoTicket: when it cannot be reached in time.
    """
    assert cluster.rdzv_endpoint is not None
    host, _, port = cluster.rdzv_endpoint.rpartition(":")
    serves = cluster.node_rank == 0
    return _store(host, int(port), serves, cluster.start_timeout_s, cluster.interface)


def store_at(host: str, port: int, timeout_s: float) -> dist.Store:
    """A store that another process serves.

    Raises:
        NoTicket: when it cannot be reached in time.
    """
    return _store(host, port, False, timeout_s, None)


def new_run_id() -> str:
    """A name that no other gang has."""
    return f"shardlab-{os.getpid()}-{time.time_ns():x}"


def local_store() -> tuple[dist.Store, int]:
    """A store for the ranks of this machine alone, served here, and its port.

    Left to itself the store would listen on all of the machine's addresses.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    port = int(listener.getsockname()[1])
    store = dist.TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return store, port


def _store(
    host: str, port: int, serves: bool, timeout_s: float, interface: str | None
) -> dist.Store:
    if not serves:
        _knock(host, port, timeout_s)
    try:
        return dist.TCPStore(
            host,
            port,
            is_master=serves,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=True,
            master_listen_fd=_listener(host, port, interface) if serves else None,
        )
    except (dist.DistError, RuntimeError, ValueError) as error:
        what = "cannot be served here" if serves else "does not speak as a store does"
        cause = str(error).splitlines()[0]
        if "EADDRINUSE" in cause:
            cause = f"port {port} is taken. Choose another on all nodes, or end what has it"
        raise NoTicket(f"the store at {host}:{port} {what}: {cause}") from error


def _listener(host: str, port: int, interface: str | None) -> int | None:
    """Where the store is to listen; None leaves it to the store, which listens everywhere.

    So it is for the store that this process serves at that port already, and where the port is
    another's, of which the store tells.
    """
    try:
        return socket.create_server((listening_address(host, interface), port)).detach()
    except OSError:
        return None


def _knock(host: str, port: int, timeout_s: float) -> None:
    """Wait until somebody listens there. TCPStore could wait too, deaf to signals and loudly."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection((host, port), timeout=min(KNOCK_S, timeout_s)).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise NoTicket(
                    f"the store at {host}:{port} did not answer within {timeout_s:g} s ({error})"
                    f"{_looked_for_at_home(host)}"
                ) from error
            time.sleep(KNOCK_AGAIN_S)


def _looked_for_at_home(host: str) -> str:
    """A hint, where a name of this machine's loopback leads to nobody."""
    with suppress(OSError):
        address = socket.gethostbyname(host)
        if address.startswith("127.") and address != host:
            return f": here {host} is {address}, this machine itself; see its /etc/hosts"
    return ""


def own_address(cluster: Cluster) -> tuple[str, str | None]:
    """This node's address on the way to `cluster.rdzv_endpoint`, and the interface that has it.

    Waits for a name that does not resolve yet, which is said: a pod has one once it is placed.

    Raises:
        NoTicket: when the host does not resolve or cannot be routed to within
            `cluster.start_timeout_s`.
    """
    assert cluster.rdzv_endpoint is not None
    host, _, port = cluster.rdzv_endpoint.rpartition(":")
    deadline, told = time.monotonic() + cluster.start_timeout_s, False
    while True:
        try:
            address = address_towards(host, int(port))
            return address, interface_of(address)
        except OSError as error:
            cause = (
                f"cluster.rdzv_endpoint={cluster.rdzv_endpoint}: {host} cannot be reached from "
                f"node {cluster.node_rank}: {error.strerror or error}"
            )
            if time.monotonic() > deadline:
                raise NoTicket(
                    f"{cause}. Give an address of node 0 that every node resolves."
                ) from error
        if not told:
            print(f"{cause}; tried again for {cluster.start_timeout_s:g} s", file=sys.stderr)
            told = True
        time.sleep(KNOCK_AGAIN_S)


def announce(store: dist.Store, ticket: Ticket) -> None:
    """Tell the others."""
    store.set(KEY, json.dumps(asdict(ticket)))


def receive(store: dist.Store, timeout_s: float) -> Ticket:
    """Wait to be told.

    Raises:
        NoTicket: after `timeout_s` seconds, or when the deciding process is gone.
    """
    asked = Answering(store, ANSWER_S)
    try:
        wait_for(asked, KEY, timeout_s)
        ticket = Ticket(**json.loads(asked.get(KEY)))
        asked.add(HEARD, 1)
        return ticket
    except (dist.DistError, RuntimeError) as error:
        raise NoTicket(
            f"no word from the process that decides the run's folder within {timeout_s:g} s: "
            "did it start, and did it end with an error?"
        ) from error


def all_heard(store: dist.Store, others: int, timeout_s: float) -> bool:
    """Wait until `others` processes have received the ticket; whether they did in time."""
    deadline = time.monotonic() + timeout_s
    while store.add(HEARD, 0) < others:
        if time.monotonic() > deadline:
            return False
        time.sleep(ASK_S)
    return True


def wait_for(store: dist.Store | Answering, key: str, timeout_s: float) -> None:
    """Wait until `key` is set. Asked again and again: `Store.wait` is deaf to signals, and loud.

    Raises:
        DistStoreError: when it is not set in time.
        DistNetworkError: when the store is gone.
    """
    deadline = time.monotonic() + timeout_s
    while not store.check([key]):
        if time.monotonic() > deadline:
            raise dist.DistStoreError(f"{key} is not set")
        time.sleep(ASK_S)
