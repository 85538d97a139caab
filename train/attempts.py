"""A run's attempts, from the process that decides: a gang that fails is started afresh."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from components.cluster.handshake import Ticket, announce, new_run_id
from components.cluster.nodes import Nodes
from components.cluster.preemption import Notice
from train import failure, status
from train.assembly import assemble
from train.failure import Failure
from train.files import write_text
from train.health.report import explained_by_all
from train.node_gang import Place, meet, run_gang
from train.provenance import note_attempt
from train.resume import make_way, next_attempt
from train.run_plan import Plan, as_yaml
from train.same_config import given

LAST_WORDS_S = 12.0
"""How long node 0 waits for the other nodes to end and to say why."""

FINAL = frozenset({"refused", "diverged", "drifted", "nondeterministic", "stopped", "preempted"})
"""Kinds of failures after which the same would happen again, or somebody wants an end."""


@dataclass
class Attempts:
    """The attempts that one command makes at a run.

    Attributes:
        plan: of the present attempt.
        folder: the run's, taken by this process.
        number: of the present attempt.
        notice: takes a warning that comes while ranks run.
    """

    plan: Plan
    folder: Path
    number: int
    notice: Notice
    _nodes: Nodes | None = None
    _listeners: int = 0

    def run(self) -> Failure | None:
        """Run gangs until one does its work or no other may follow; the failure that explains it.

        Raises:
            NoTicket: when the nodes cannot meet.
            Interrupted: by the user, or by a warning that ends all ranks at once.
        """
        last = self.number + self.plan.cluster.max_restarts
        show(self.plan, self.folder)
        ticket = describe(self.plan, self.folder, self.number)
        place = meet(self.plan.cluster)
        place = assemble(place, self.plan.cluster, self.plan.local_world_size, given(self.plan))
        announce(place.store, ticket)
        while True:
            failures, whole = self._one(ticket, place)
            first = failure.first(failures)
            final = any(one.ordered or one.kind in FINAL for one in failures) or not whole
            if first is None or final or self.number == last or self.notice.asked:
                self.over(first)
                return first
            ticket = self._next(first, last)

    def over(self, first: Failure | None) -> None:
        """Let the other nodes know how the run ended, and that nothing follows."""
        self._decide(first, None)

    def _one(self, ticket: Ticket, place: Place) -> tuple[list[Failure], bool]:
        """One attempt: the failures on all nodes, and whether all nodes are still there."""
        cluster = self.plan.cluster
        self._listeners = cluster.nnodes - 1
        self._nodes = Nodes(place.store, ticket.run_id, 0, cluster.nnodes, cluster.timeout_s)
        own = run_gang(self.plan, ticket, place, self._nodes, self.notice)
        # Ranks that have saved together take their time, each its own, to close their books.
        agreed = own is not None and own.agreed
        words = self._nodes.others(cluster.preempt_grace_s if agreed else LAST_WORDS_S)
        others = [Failure(**word) for word in words.values() if word is not None]
        silent = sorted({*range(1, cluster.nnodes)} - {*words})
        # A node that somebody's signal has ended may not wait for a verdict.
        self._listeners -= len(silent) + sum(one.ordered for one in others)
        failures = others if own is None else [*others, own]
        failures = explained_by_all(failures, self._nodes.sights(), cluster)
        failures += [failure.silent_node(node) for node in silent]
        if not failures and not (self.folder / "summary.json").exists():
            cause = "the ranks ended before their last step, with exit code 0"
            failures.append(failure.killed(cause))
        return failures, not silent

    def _next(self, first: Failure, last: int) -> Ticket:
        """Prepare the next attempt, and let the other nodes know."""
        self.plan, step = next_attempt(self.plan, self.folder)
        whence = f"resumes from step {step}" if step else "starts from step 0"
        print(
            f"\n{failure.headline(first)}\nattempt {self.number + 1} of {last} {whence}\n",
            file=sys.stderr,
            flush=True,
        )
        self.number = status.reopen(self.folder, failure.in_status(first))
        ticket = describe(self.plan, self.folder, self.number)
        self._decide(first, ticket)
        return ticket

    def _decide(self, first: Failure | None, again: Ticket | None) -> None:
        if self._nodes is not None:
            word = None if first is None else asdict(first)
            self._nodes.decide(word, again, self._listeners, LAST_WORDS_S)


def show(plan: Plan, folder: Path) -> None:
    """Show what the run is."""
    print("\n".join([*plan.lines(), f"folder      {folder}", ""]), flush=True)
    warn(plan)


def warn(plan: Plan) -> None:
    """Say what its user should know of before it starts."""
    for warning in plan.warnings():
        print(f"warning: {warning}", file=sys.stderr, flush=True)


def describe(plan: Plan, folder: Path, attempt: int) -> Ticket:
    """Write down what an attempt is; returns what the others need to know.

    What earlier attempts left beyond the point where it goes on is put aside.
    """
    if attempt > 1:
        make_way(plan, folder)
    text = as_yaml(plan)
    write_text(folder / "config.yaml", text)
    note_attempt(plan, folder, attempt)
    return Ticket(str(folder), new_run_id(), text, attempt)
