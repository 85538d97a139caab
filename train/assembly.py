"""Before the ranks of several nodes start: all nodes are there, or it is said who is not."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from dataclasses import replace

import torch.distributed as dist
from omegaconf import DictConfig

from components.cluster.cluster import Cluster
from components.cluster.handshake import NoTicket, Ticket, all_heard, announce, store_at
from components.cluster.network import address_towards, interface_of
from components.cluster.roll_call import Told, here, in_words, missing, roll_call
from train.node_gang import Place
from train.same_config import differing

HEAR_S = 12.0
"""How long node 0 waits until the nodes that have come know that nothing begins."""

TELL_S = 30.0
"""How long a node that cannot take part looks for node 0, to tell it so: they start together."""

REFUSED = "refused"
"""Where a node leaves word that it cannot take part."""


def take_place(place: Place, cluster: Cluster, address: str, ranks: int, given: str = "") -> None:
    """Another node: let node 0 know that this one is there.

    Args:
        address: of this node towards node 0.
        ranks: that it will start.
        given: its config, as `train.same_config.given` has it.
    """
    host = socket.gethostname()
    here(place.store, cluster.node_rank, address=address, host=host, ranks=ranks, given=given)


def assemble(place: Place, cluster: Cluster, ranks: int, given: str = "") -> Place:
    """Node 0: wait until all nodes have come; the place, with node 0's interface towards them.

    Where they do not, those that have come are told that nothing begins.

    Args:
        ranks: that this node will start.
        given: its config, as `train.same_config.given` has it; the others' has to be the same.

    Raises:
        NoTicket: who is missing and who is there, or why one cannot take part.
    """
    if cluster.nnodes == 1:
        return place
    print(f"node 0 waits for {cluster.nnodes - 1} more at {cluster.rdzv_endpoint}", flush=True)
    here(place.store, 0, host=socket.gethostname(), ranks=ranks, given=given)
    told = roll_call(
        place.store, cluster.nnodes, cluster.start_timeout_s, lambda: _refusal(place.store)
    )
    cause = _refusal(place.store) or _absent(told, cluster) or _uneven(told) or _unlike(told)
    if cause is not None:
        announce(place.store, Ticket(exit_code=1))
        all_heard(place.store, len(told) - 1, HEAR_S)
        raise NoTicket(cause)
    return replace(place, interface=_interface(told) or place.interface)


def cannot_take_part(config: DictConfig, cause: str) -> None:
    """A node that is refused lets node 0 know, which would wait for it.

    Args:
        config: of the job; what it says of the cluster may be the mistake.
    """
    cluster = config.cluster
    where = f"looks for node 0 at {cluster.rdzv_endpoint} to tell it so, for {TELL_S:g} s at most"
    print(f"node {cluster.node_rank} {where}", file=sys.stderr, flush=True)
    with suppress(Exception):  # whatever goes wrong here, the refusal is what counts
        host, _, port = cluster.rdzv_endpoint.rpartition(":")
        store = store_at(host, int(port), TELL_S)
        word = f"node {cluster.node_rank} ({socket.gethostname()}) is refused: {cause}"
        store.set(REFUSED, word)


def _refusal(store: dist.Store) -> str | None:
    return store.get(REFUSED).decode() if store.check([REFUSED]) else None


def _absent(told: dict[int, Told], cluster: Cluster) -> str | None:
    absent = missing(told, cluster.nnodes)
    if not absent:
        return None
    there = ", ".join(f"node {node} ({word['host']})" for node, word in sorted(told.items()))
    return (
        f"{in_words(absent, 'node')} did not come to {cluster.rdzv_endpoint} within "
        f"{cluster.start_timeout_s:g} s (cluster.start_timeout_s); there: {there}. Type the same "
        f"command on the missing with cluster.node_rank={absent[0]}, and see that the address can "
        "be reached from there."
    )


def _uneven(told: dict[int, Told]) -> str | None:
    own = told[0]["ranks"]
    for node, word in sorted(told.items()):
        if word["ranks"] != own:
            return (
                f"node {node} ({word['host']}) would start {word['ranks']} ranks and node 0 {own}. "
                "Give the same cluster.nproc_per_node on all nodes."
            )
    return None


def _unlike(told: dict[int, Told]) -> str | None:
    for node, word in sorted(told.items()):
        if difference := differing(told[0]["given"], word["given"]):
            return f"node {node} ({word['host']}) {difference}."
    return None


def _interface(told: dict[int, Told]) -> str | None:
    """Node 0's interface towards another node.

    Not that of the rendezvous' own name, which is 127.0.0.1 here where `/etc/hosts` gives a machine
    its name so: other nodes would look for this one's ranks at home.
    """
    addresses = [word["address"] for node, word in sorted(told.items()) if node]
    away = [address for address in addresses if not address.startswith("127.")]
    return interface_of(address_towards((away or addresses)[0], 9))
