"""A node that takes part in what node 0 decides."""

from __future__ import annotations

import sys
from pathlib import Path

from components.cluster.handshake import NoTicket, Ticket, own_address, receive
from components.cluster.nodes import Gone, Nodes
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.signals import Interrupted
from train import failure, past
from train.assembly import HEAR_S, take_place
from train.exit_codes import FAILED, exit_code
from train.failure import Failure
from train.files import write_text
from train.node_gang import Place, meet, run_gang
from train.run_plan import Plan
from train.same_config import given


def follow_node(plan: Plan) -> int:
    """Run this node's ranks of a run that node 0 decides; the exit code.

    Raises:
        Interrupted: by the user, or before node 0 has decided; this node's ranks are gone by then.
    """
    node = plan.cluster.node_rank
    try:
        address, _ = own_address(plan.cluster)
        print(f"node {node} at {address} waits for node 0", flush=True)
        place = meet(plan.cluster)
        take_place(place, plan.cluster, address, plan.local_world_size, given(plan))
        # Node 0 may wait as long for the others, and then says who is missing.
        ticket = receive(place.store, plan.cluster.start_timeout_s + HEAR_S)
    except NoTicket as error:
        print(f"node {node}: {error}", file=sys.stderr)
        return FAILED
    if ticket.exit_code is not None:
        print(f"node {node}: node 0 begins no run; its message says why", file=sys.stderr)
        return ticket.exit_code
    print(f"node {node} takes part in {ticket.folder}; node 0 shows how it goes", flush=True)
    try:
        first = _attempts(plan, ticket, place)
    except Interrupted as stop:
        if not stop.warning:
            raise
        print(f"node {node}: {stop}", file=sys.stderr)
        return PREEMPTED
    if first is not None:
        print(f"node {node}: {failure.in_words(first, Path(ticket.folder), node)}", file=sys.stderr)
    return exit_code(first)


def _attempts(plan: Plan, ticket: Ticket, place: Place) -> Failure | None:
    """One attempt after the other, until node 0 says that it is over; what explains the end."""
    cluster, notice = plan.cluster, Notice()
    local = range(
        cluster.node_rank * plan.local_world_size, (cluster.node_rank + 1) * plan.local_world_size
    )
    again: Ticket | None = ticket
    first: Failure | None = None
    while again is not None:
        folder = settle(again)
        if again.attempt > 1:
            past.put_aside(folder, again.attempt - 1, local)
        nodes = Nodes(
            place.store, again.run_id, cluster.node_rank, cluster.nnodes, cluster.timeout_s
        )
        own = run_gang(plan, again, place, nodes, notice)
        try:
            word, again = nodes.verdict()
        except Gone:
            gone = failure.silent_node(0)
            return failure.first([gone] if own is None else [own, gone])
        first = None if word is None else Failure(**word)
    return first


def settle(ticket: Ticket) -> Path:
    """Make the run's folder where the file system of the deciding process is not shared."""
    folder = Path(ticket.folder)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    if not config.exists() or config.read_text() != ticket.config:
        write_text(config, ticket.config)
    return folder
