"""From a plan to an end state: claim the folder, start this node's ranks, tell how they ended."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch.distributed as dist

from components.cluster.gang import Exit, Lost, launch, members
from components.cluster.handshake import (
    NoTicket,
    Ticket,
    all_heard,
    announce,
    local_store,
    new_run_id,
    node_store,
    own_address,
    receive,
)
from components.cluster.nodes import Nodes
from components.cluster.signals import Interrupted
from components.errors import ConfigError
from train import failure, status
from train.failure import Failure
from train.files import write_json
from train.provenance import provenance
from train.run_plan import Plan, as_yaml
from train.worker import run_rank

DONE, FAILED, REFUSED = 0, 1, 2

LAST_WORDS_S = 12.0
"""How long node 0 waits for the other nodes to end and to say why."""


def lead(plan: Plan, folder: Path) -> int:
    """Run a plan in its folder, from the process that decides; the exit code.

    Raises:
        ConfigError: when the folder already holds a run, or a rank refused its configuration.
        Interrupted: by a signal; the gang is gone by then.
    """
    try:
        status.claim(folder)
    except ConfigError:
        refuse_nodes(plan)
        raise
    try:
        ticket = describe(plan, folder)
        if plan.cluster.nnodes == 1:
            store, port = local_store()
            first = _run_gang(plan, ticket, None, store, "127.0.0.1", port)
        else:
            _, interface = own_address(plan.cluster)
            store = node_store(plan.cluster)
            announce(store, ticket)
            first = _run_gang(plan, ticket, interface, store)
    except Interrupted as stop:
        status.finish(folder, "failed", failure.in_status(failure.of_controller(str(stop))))
        print(f"\nall ranks have ended; the run's folder: {folder}", file=sys.stderr)
        raise
    except NoTicket as error:
        first = failure.of_controller(str(error))
    except Exception as error:
        first = failure.record(folder, None, error)
    return tell(folder, first)


def describe(plan: Plan, folder: Path) -> Ticket:
    """Write down and show what the run is; returns what the others need to know."""
    text = as_yaml(plan)
    (folder / "config.yaml").write_text(text)
    write_json(
        folder / "provenance.json", {**provenance(), "cell": plan.cell, "seed": plan.config.seed}
    )
    print("\n".join([*plan.lines(), f"folder      {folder}", ""]), flush=True)
    return Ticket(str(folder), new_run_id(), text)


def settle(ticket: Ticket) -> Path:
    """Make the run's folder where the file system of the deciding process is not shared."""
    folder = Path(ticket.folder)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    if not (folder / "config.yaml").exists():
        (folder / "config.yaml").write_text(ticket.config)
    return folder


def follow_node(plan: Plan) -> int:
    """Run this node's ranks of a run that node 0 decides; the exit code.

    Raises:
        Interrupted: by a signal; this node's ranks are gone by then.
    """
    node = plan.cluster.node_rank
    try:
        address, interface = own_address(plan.cluster)
        print(f"node {node} at {address} waits for node 0", flush=True)
        store = node_store(plan.cluster)
        ticket = receive(store, plan.cluster.start_timeout_s)
        if ticket.exit_code is not None:
            print(f"node {node}: node 0 refused the run; its message says why", file=sys.stderr)
            return ticket.exit_code
        folder = settle(ticket)
        print(f"node {node} takes part in {folder}; node 0 shows how it goes", flush=True)
        first = _run_gang(plan, ticket, interface, store)
    except NoTicket as error:
        print(f"node {node}: {error}", file=sys.stderr)
        return FAILED
    if first is None:
        return DONE
    print(f"node {node}: {failure.in_words(first, folder)}", file=sys.stderr)
    return REFUSED if first.kind == "refused" else FAILED


def refuse_nodes(plan: Plan) -> None:
    """Let the other nodes' controllers know that there will be no run."""
    if plan.cluster.nnodes > 1:
        store = node_store(plan.cluster)
        announce(store, Ticket(exit_code=REFUSED))
        all_heard(store, plan.cluster.nnodes - 1, LAST_WORDS_S)


def _run_gang(
    plan: Plan,
    ticket: Ticket,
    interface: str | None,
    store: dist.Store,
    host: str | None = None,
    port: int | None = None,
) -> Failure | None:
    """Start this node's ranks and await the end of all nodes'; the failure that explains it."""
    folder, cluster = Path(ticket.folder), plan.cluster
    if host is None or port is None:
        assert cluster.rdzv_endpoint is not None
        host, _, text = cluster.rdzv_endpoint.rpartition(":")
        port = int(text)
    ranks = members(cluster, plan.local_world_size, host, port)
    nodes = Nodes(store, ticket.run_id, cluster.node_rank, cluster.nnodes)
    exits: list[Exit] = []
    failures: list[Failure] = []
    preload = (run_rank.__module__, *plan.preload)
    try:
        exits = launch(
            ranks, run_rank, (ticket.folder, interface, ticket.attempt), preload, nodes.lost
        )
    except Lost:
        failures.append(failure.of_controller("the other nodes came to a bad end"))
    except Interrupted as stop:
        nodes.end(asdict(failure.of_controller(f"node {cluster.node_rank}: {stop}")))
        raise
    numbers = [rank.rank for rank in ranks]
    failures += failure.told(folder, numbers, exits)
    if exits and cluster.nnodes == 1:
        failures += failure.suspects(failures, numbers)
    own = failure.first(failures)
    nodes.end(None if own is None else asdict(own))
    if cluster.node_rank == 0 or own is not None:
        failures += _others(nodes, cluster.nnodes)
    return failure.first(failures)


def _others(nodes: Nodes, nnodes: int) -> list[Failure]:
    """What the other nodes say of their ends."""
    words = nodes.others(LAST_WORDS_S)
    failures = [Failure(**word) for word in words.values() if word is not None]
    silent = sorted({*range(nnodes)} - {*words, nodes.node_rank})
    return failures + [
        Failure(None, "killed", f"node {node} ended without a word", time.time()) for node in silent
    ]


def tell(folder: Path, first: Failure | None) -> int:
    """Write the end state and, for a failure, show the one that explains the others.

    Raises:
        ConfigError: when a rank refused its configuration.
    """
    if first is None and not (folder / "summary.json").exists():
        first = failure.of_controller("the ranks ended before their last step, with exit code 0")
    if first is None:
        status.finish(folder, "completed")
        print(f"completed in {status.seconds(folder):.0f} s: {folder}", flush=True)
        return DONE
    error = failure.in_status(first)
    status.finish(folder, "refused" if first.kind == "refused" else "failed", error)
    if first.kind == "refused":
        raise ConfigError(first.cause)
    print(f"\n{failure.in_words(first, folder)}", file=sys.stderr)
    return FAILED
