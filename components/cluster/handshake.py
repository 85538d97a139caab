"""How one process tells the others which run they are in.

The folder of a run, its resolved config and its rendezvous name are decided
once, by rank 0 of an outside launcher's gang or by the controller of node 0,
and reach the others through a store that both can see. Nobody else composes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import timedelta

import torch.distributed as dist

from components.cluster.cluster import Cluster
from components.cluster.joined import Joined

KEY = "shardlab/ticket"


class NoTicket(Exception):
    """The deciding process did not tell in time, or is not there."""


@dataclass(frozen=True)
class Ticket:
    """What the others need to know.

    Attributes:
        folder: absolute path of the run's folder.
        run_id: names the rendezvous of this gang.
        config: the resolved config as YAML, for nodes that do not share a file system.
        refused: whether the run was refused; then nothing else holds.
    """

    folder: str = ""
    run_id: str = ""
    config: str = ""
    refused: bool = False


def gang_store(gang: Joined, timeout_s: float) -> dist.Store:
    """The store of an outside launcher's ranks; rank 0 serves it where the launcher does not.

    Raises:
        NoTicket: when it cannot be reached in time.
    """
    serves = gang.rank == 0 and not gang.hosted
    return dist.PrefixStore("shardlab", _store(gang.host, gang.port, serves, timeout_s))


def node_store(cluster: Cluster) -> dist.Store:
    """The store at `cluster.rdzv_endpoint`, served by node 0, that the nodes' controllers share.

    Raises:
        NoTicket: when it cannot be reached in time.
    """
    assert cluster.rdzv_endpoint is not None
    host, _, port = cluster.rdzv_endpoint.rpartition(":")
    return _store(host, int(port), cluster.node_rank == 0, cluster.start_timeout_s)


def _store(host: str, port: int, serves: bool, timeout_s: float) -> dist.Store:
    try:
        return dist.TCPStore(
            host,
            port,
            is_master=serves,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except (dist.DistError, RuntimeError, ValueError) as error:
        what = "cannot be served here" if serves else f"did not answer within {timeout_s:g} s"
        raise NoTicket(
            f"the store at {host}:{port} {what}: {str(error).splitlines()[0]}"
        ) from error


def announce(store: dist.Store, ticket: Ticket) -> None:
    """Tell the others."""
    store.set(KEY, json.dumps(asdict(ticket)))


def receive(store: dist.Store, timeout_s: float) -> Ticket:
    """Wait to be told.

    Raises:
        NoTicket: after `timeout_s` seconds, or when the deciding process is gone.
    """
    try:
        store.wait([KEY], timedelta(seconds=timeout_s))
        return Ticket(**json.loads(store.get(KEY)))
    except (dist.DistError, RuntimeError) as error:
        raise NoTicket(
            f"no word from the process that decides the run's folder within {timeout_s:g} s: "
            "did it start, and did it end with an error?"
        ) from error
