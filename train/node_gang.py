"""This node's ranks of one attempt: where they meet, how they start, what explains their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch.distributed as dist

from components.cluster.cluster import Cluster
from components.cluster.gang import Exit, Lost, Overdue, launch, members
from components.cluster.handshake import Ticket, local_store, node_store, own_address
from components.cluster.joined import Joined
from components.cluster.nodes import Word
from components.cluster.preemption import Notice
from components.cluster.signals import Interrupted
from train import failure, orders
from train.failure import Failure
from train.health.report import explained
from train.health.sight import Sight, with_words
from train.health.watch import Stalled, Watch
from train.last_words import suspects, told


@dataclass(frozen=True)
class Place:
    """Where the ranks of all nodes meet.

    Attributes:
        store: shared by all nodes, at `host:port`.
        interface: this node's network interface towards it; None leaves it open.
    """

    store: dist.Store
    host: str
    port: int
    interface: str | None


class Ranked(Protocol):
    """What a gang needs to know of a plan."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def local_world_size(self) -> int: ...


class Peers(Protocol):
    """The other nodes of a gang."""

    def lost(self) -> bool:
        """Whether another node has come to a bad end, or node 0 does not answer."""

    def end(self, word: Word, bad: bool, sights: Sequence[dict[str, Any]]) -> None:
        """Leave this node's last word, whether the others' ranks cannot go on, and where its own
        ranks were when something went wrong."""


def meet(cluster: Cluster) -> Place:
    """Reach the store of all nodes, which node 0 serves.

    Raises:
        NoTicket: when that cannot be done in time.
    """
    if cluster.nnodes == 1:
        store, port = local_store()
        return Place(store, "127.0.0.1", port, None)
    assert cluster.rdzv_endpoint is not None
    _, interface = own_address(cluster)
    host, _, text = cluster.rdzv_endpoint.rpartition(":")
    return Place(node_store(cluster), host, int(text), interface)


def _rank(gang: Joined, folder: str, interface: str | None, attempt: int) -> None:
    """In a rank's process, which has all that training needs; the one that starts it has not."""
    from train.worker import run_rank

    run_rank(gang, folder, interface, attempt)


def run_gang(
    plan: Ranked,
    ticket: Ticket,
    place: Place,
    nodes: Peers,
    notice: Notice,
    rank: Callable[[Joined, str, str | None, int], None] = _rank,
    regroup: Callable[[], bool] = lambda: False,
) -> Failure | None:
    """Run this node's ranks and let the other nodes know of their end; what explains that.

    Args:
        rank: what a rank's process does, in the folder of the ticket; it trains by default.
        regroup: whether the ranks are to save and end for another gang.

    Raises:
        Interrupted: by a signal; the ranks are gone by then.
    """
    folder, cluster = Path(ticket.folder), plan.cluster
    ranks = members(cluster, plan.local_world_size, place.host, place.port, ticket.attempt)
    numbers = [member.rank for member in ranks]
    watch = Watch(folder, numbers, cluster.stall_s)
    exits: list[Exit] = []
    failures: list[Failure] = []

    def lost() -> bool:
        watch.check()
        return nodes.lost()

    def alarm(ends: list[Exit]) -> None:
        if all(one.victim for one in told(folder, numbers, [e for e in ends if e.bad])):
            watch.look()  # no rank has said what began it

    try:
        with watch.on():
            exits = launch(
                ranks,
                rank,
                (ticket.folder, place.interface, ticket.attempt),
                notice,
                cluster.preempt_grace_s,
                lost,
                regroup,
                alarm,
            )
    except Stalled:
        failures.append(Failure(None, "stalled", "the ranks do not come on", time.time()))
    except Lost:
        failures.append(failure.of_controller("the other nodes came to a bad end"))
    except Overdue:
        failures.append(orders.overdue(notice, cluster.preempt_grace_s))
    except Interrupted as stop:
        _say(nodes, cluster, orders.at_once(stop.signum, notice))
        raise
    failures += told(folder, numbers, exits)
    sights = with_words(watch.sights, failures)
    if cluster.nnodes == 1 and any(end.bad for end in exits) and not sights:
        failures += suspects(failures, numbers)
    own = failure.first(failures)
    if own is not None and cluster.nnodes == 1:
        own = explained(own, sights, cluster)
    _say(nodes, cluster, own, sights)
    return own


def _say(nodes: Peers, cluster: Cluster, own: Failure | None, sights: Sequence[Sight] = ()) -> None:
    """Leave this node's last word, and where its ranks were."""
    if own is None:
        nodes.end(None, False, [])
        return
    named = replace(own, cause=f"node {cluster.node_rank}: {own.cause}") if own.ordered else own
    nodes.end(asdict(named), not own.agreed, [asdict(sight) for sight in sights])
