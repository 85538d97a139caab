"""A check whose ranks this command starts, on one node or several, as a run does it."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch.distributed as dist
from omegaconf import OmegaConf

from components.cluster.gang import members
from components.cluster.handshake import (
    NoTicket,
    Ticket,
    announce,
    gang_store,
    new_run_id,
    own_address,
    receive,
)
from components.cluster.nodes import Gone, Nodes
from components.cluster.preemption import Notice
from train import failure
from train.assembly import HEAR_S, assemble, take_place
from train.attempts import LAST_WORDS_S
from train.check.board import Board
from train.check.failed import CheckFailed, explained
from train.check.plan import CheckPlan
from train.check.rank import run_rank
from train.failure import Failure
from train.follow import settle
from train.node_gang import Place, meet, run_gang

SPARE_S = 5.0
"""Beyond `cluster.timeout_s`: ranks whose collective has timed out tell of it themselves."""


class AtOnce(Notice):
    """A check has nothing to save: the first warning ends it, as any other signal does."""

    @contextmanager
    def heeded(self) -> Iterator[None]:
        yield


class Watched(Nodes):
    """The nodes of a check, which is lost too when its ranks do not come on."""

    def __init__(
        self, store: dist.Store, run_id: str, nnodes: int, board: Board, timeout_s: float
    ) -> None:
        super().__init__(store, run_id, 0, nnodes, timeout_s)
        self.stuck = False
        self._board, self._limit_s = board, timeout_s + SPARE_S
        self._said, self._since = 0, time.monotonic()

    def lost(self) -> bool:
        said = self._board.said()
        if said != self._said:
            self._said, self._since = said, time.monotonic()
        self.stuck = time.monotonic() - self._since > self._limit_s
        return self.stuck or super().lost()


def lead(plan: CheckPlan) -> list[dict[str, Any]]:
    """Node 0: bring all ranks together and have them measure; what each found, by rank.

    Raises:
        CheckFailed: when they cannot be brought together, or one fails.
        ConfigError: when a rank refuses its configuration.
        Interrupted: by a signal; this node's ranks are gone by then.
    """
    try:
        place = assemble(meet(plan.cluster), plan.cluster, plan.local_world_size)
    except NoTicket as error:
        raise CheckFailed(str(error)) from error
    ticket = Ticket(
        tempfile.mkdtemp(prefix="shardlab-check-"), new_run_id(), OmegaConf.to_yaml(plan.config)
    )
    with _kept_on_failure(ticket) as folder:
        announce(place.store, ticket)
        board = _board(plan, place)
        first = _run(plan, ticket, place, board)
        if first is not None:
            raise explained(first, board.stages(plan.world_size), folder)
        return board.results(plan.world_size, LAST_WORDS_S)


def follow(plan: CheckPlan) -> None:
    """Any other node: run its ranks; node 0 shows what all have found.

    Raises:
        CheckFailed: as `lead`.
        ConfigError: when node 0 has refused the configuration, or a rank.
        Interrupted: by a signal; this node's ranks are gone by then.
    """
    cluster, node = plan.cluster, plan.cluster.node_rank
    try:
        address, _ = own_address(cluster)
        print(f"node {node} at {address} waits for node 0", flush=True)
        place = meet(cluster)
        take_place(place, cluster, address, plan.local_world_size)
        # Node 0 may wait as long for the others, and then says who is missing.
        ticket = receive(place.store, cluster.start_timeout_s + HEAR_S)
    except NoTicket as error:
        raise CheckFailed(f"node {node}: {error}") from error
    if ticket.exit_code is not None:
        raise CheckFailed(f"node {node}: node 0 began no check; its message says why")
    print(f"node {node} takes part; node 0 shows what is found", flush=True)
    with _kept_on_failure(ticket) as folder:
        nodes = Nodes(place.store, ticket.run_id, node, cluster.nnodes, cluster.timeout_s)
        own = run_gang(plan, ticket, place, nodes, AtOnce(), run_rank)
        try:
            word, _ = nodes.verdict()
            first = None if word is None else Failure(**word)
        except Gone:
            first = own or failure.silent_node(0)
        if first is not None:
            raise explained(first, {}, folder)


@contextmanager
def _kept_on_failure(ticket: Ticket) -> Iterator[Path]:
    """The folder of the ranks' logs and config, which goes unless there is a failure to read of."""
    folder = settle(ticket)
    try:
        yield folder
    except CheckFailed:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _board(plan: CheckPlan, place: Place) -> Board:
    """Where the ranks leave their words, seen from their controller."""
    cluster = plan.cluster
    (one, *_) = members(cluster, plan.local_world_size, place.host, place.port, attempt=1)
    return Board(gang_store(one, cluster.start_timeout_s))


def _run(plan: CheckPlan, ticket: Ticket, place: Place, board: Board) -> Failure | None:
    """All nodes' ranks, to their end; the failure that explains it."""
    cluster = plan.cluster
    nodes = Watched(place.store, ticket.run_id, cluster.nnodes, board, cluster.timeout_s)
    own = run_gang(plan, ticket, place, nodes, AtOnce(), run_rank)
    words = nodes.others(LAST_WORDS_S)
    failures = [Failure(**word) for word in words.values() if word is not None]
    silent = sorted({*range(1, cluster.nnodes)} - {*words})
    failures += [failure.silent_node(node) for node in silent]
    failures += [] if own is None else [own]
    first = failure.first(failures)
    if nodes.stuck:
        cause = f"no rank has come on for {cluster.timeout_s + SPARE_S:g} s (cluster.timeout_s)"
        first = failure.of_controller(cause)
    word = None if first is None else asdict(first)
    nodes.decide(word, None, len(words), LAST_WORDS_S)
    sys.stdout.flush()
    return first
