"""From a plan to an end state: claim the folder, start the ranks, tell how they ended."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from components.cluster.gang import Interrupted, RendezvousFailed, launch, new_run_id, own_address
from components.cluster.handshake import (
    NoTicket,
    Ticket,
    announce,
    gang_store,
    node_store,
    receive,
)
from components.cluster.joined import Joined
from components.errors import ConfigError
from train import failure, status
from train.files import write_json
from train.preflight import Plan, as_yaml
from train.provenance import provenance
from train.worker import run_rank, train_in_process

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
JOIN_TIMEOUT_S = 300.0
"""How long a rank of an outside launcher waits to be told its run."""


def lead(plan: Plan, folder: Path, gang: Joined | None) -> int:
    """Run a plan in its folder from the process that decides; the exit code.

    Raises:
        ConfigError: when the folder already holds a run.
    """
    status.claim(folder)
    (folder / "logs").mkdir(exist_ok=True)
    text = as_yaml(plan)
    (folder / "config.yaml").write_text(text)
    write_json(
        folder / "provenance.json", {**provenance(), "cell": plan.cell, "seed": plan.config.seed}
    )
    print("\n".join([*plan.lines(), f"folder      {folder}", ""]), flush=True)
    ticket = Ticket(str(folder), new_run_id(), text)
    if gang is not None:
        announce(gang_store(gang, JOIN_TIMEOUT_S), ticket)
        code = train_in_process(folder, None, gang)
        return _tell(folder, failure.first(folder, []) if code else None)
    try:
        interface = None
        if plan.cluster.nnodes > 1:
            _, interface = own_address(plan.cluster)
            store = node_store(plan.cluster)
            announce(store, ticket)
        return _run_gang(plan, ticket, interface)
    except (NoTicket, RendezvousFailed) as error:
        return _tell(folder, failure.Failure(0, "error", str(error), 0.0))


def follow_node(plan: Plan) -> int:
    """Run this node's ranks of a run that node 0 decides; the exit code."""
    try:
        _, interface = own_address(plan.cluster)
        ticket = receive(node_store(plan.cluster), plan.cluster.start_timeout_s)
        if ticket.refused:
            print("node 0 refused the run; its message says why", file=sys.stderr)
            return REFUSED
        _settle(ticket)
        return _run_gang(plan, ticket, interface)
    except (NoTicket, RendezvousFailed) as error:
        print(f"node {plan.cluster.node_rank}: {error}", file=sys.stderr)
        return FAILED


def follow_rank(gang: Joined) -> int:
    """Train as one rank of an outside launcher's gang, in the run that rank 0 decides."""
    try:
        ticket = receive(gang_store(gang, JOIN_TIMEOUT_S), JOIN_TIMEOUT_S)
    except NoTicket as error:
        print(f"rank {gang.rank}: {error}", file=sys.stderr)
        return FAILED
    if ticket.refused:
        return REFUSED
    _settle(ticket)
    return train_in_process(Path(ticket.folder), None, gang)


def refuse_others(gang: Joined | None) -> None:
    """Let an outside launcher's other ranks know that there will be no run."""
    if gang is not None and gang.world_size > 1:
        announce(gang_store(gang, JOIN_TIMEOUT_S), Ticket(refused=True))


def _settle(ticket: Ticket) -> None:
    """Make the run's folder on a node that does not share node 0's file system."""
    folder = Path(ticket.folder)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    if not (folder / "config.yaml").exists():
        (folder / "config.yaml").write_text(ticket.config)


def _run_gang(plan: Plan, ticket: Ticket, interface: str | None) -> int:
    """Start this node's ranks, and tell how they ended."""
    folder, cluster = Path(ticket.folder), plan.cluster
    try:
        exits = launch(
            cluster,
            plan.local_world_size,
            ticket.run_id,
            run_rank,
            (ticket.folder, interface),
            plan.preload,
        )
    except Interrupted as stop:
        error = {"cause": str(stop), "rank": None, "traceback_file": None}
        if cluster.node_rank == 0:
            status.finish(folder, "failed", error)
        print(f"{stop}: all ranks have ended; {folder}", file=sys.stderr)
        return INTERRUPTED if stop.signum == 2 else 128 + stop.signum
    first = failure.first(folder, exits) if exits else None
    return _tell(folder, first, writes=cluster.node_rank == 0)


def _tell(folder: Path, first: failure.Failure | None, writes: bool = True) -> int:
    """Write the end state and, for a failure, show the one that explains the others."""
    if first is None:
        if writes:
            status.finish(folder, "completed")
        return DONE
    told = asdict(first)
    error = {key: told[key] for key in ("cause", "rank", "kind", "step", "traceback_file")}
    refused = first.kind == "refused"
    if writes:
        status.finish(folder, "refused" if refused else "failed", error)
    if refused:
        raise ConfigError(first.cause)
    print(f"\nrank {first.rank} failed at step {first.step}: {first.cause}", file=sys.stderr)
    if first.traceback_file:
        print(f"its traceback: {folder / first.traceback_file}", file=sys.stderr)
    print(f"the run's folder: {folder}", file=sys.stderr)
    return FAILED
