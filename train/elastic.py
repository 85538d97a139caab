"""The attempts of a run whose nodes come and go, from the process on node 0 that decides."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from components.cluster.handshake import Ticket
from components.cluster.nodes import ASK_S
from components.cluster.preemption import Notice
from components.cluster.roll import Comer
from components.cluster.roster import Roster
from components.cluster.signals import Interrupted
from train import elastic_words, failure, status
from train.attempts import FINAL, LAST_WORDS_S, describe, show
from train.elastic_bounds import Bounds
from train.elastic_gang import NodeGang, comer_of
from train.exit_codes import REFUSED, exit_code
from train.failure import Failure
from train.health.report import explained_by_all
from train.node_gang import Place, meet, run_gang
from train.resume import next_attempt, whole_again
from train.run_plan import Plan
from train.same_config import differing

HOPELESS = FINAL - {"stopped", "preempted"}
"""Kinds of failures after which the same would happen again on any nodes."""


class TooFew(Exception):
    """There are not enough nodes, and no more have come in time."""


@dataclass
class ElasticAttempts:
    """The attempts that one command makes at a run, each on the nodes that are there.

    Attributes:
        plan: on the most nodes, then that of the present attempt.
        folder: the run's, taken by this process.
        number: of the present attempt.
        notice: takes a warning that comes while ranks run.
    """

    plan: Plan
    folder: Path
    number: int
    notice: Notice
    _roster: Roster | None = None

    def run(self) -> Failure | None:
        """Run gangs until one does its work or no other may follow; the failure that explains it.

        Raises:
            NoTicket: when the store cannot be served.
            Interrupted: by the user, or by a warning that ends all ranks at once.
        """
        show(self.plan, self.folder)
        first = self._run(self.plan, meet(self.plan.cluster))
        self.over(first)
        return first

    def over(self, first: Failure | None) -> None:
        """Let the other nodes know how the run ended, and that nothing follows."""
        if self._roster is not None:
            word = None if first is None else asdict(first)
            self._roster.finish(word, exit_code(first), LAST_WORDS_S)

    def _run(self, whole: Plan, place: Place) -> Failure | None:
        roster = self._roster = open_roster(whole, place, self.folder)
        bounds = Bounds(whole.cluster.max_restarts)
        gang: NodeGang | None = None
        first: Failure | None = None
        while True:
            try:
                members, happened = self._gather(whole, roster, gang)
            except TooFew as lack:
                return _not_formed(str(lack), first)
            except Interrupted as stop:
                if not stop.warning:
                    raise
                return _not_formed(f"{stop} before a gang was formed", first)
            ticket = self._form(whole, members, first, happened)
            gang = NodeGang(
                roster, members, self.number, whole.cluster.nnodes, whole.cluster.settle_s, _tell
            )
            roster.call(ticket, members)
            failures = self._one(ticket, place, gang)
            if not failures:
                return None
            first = failure.first(failures)
            assert first is not None
            step = max(status.last_recorded(self.folder), *(one.step for one in failures))
            agreed = all(one.agreed for one in failures)
            final = self._final(first, agreed, step, gang, bounds)
            if final is not None:
                return final
            first = _reason(first, agreed, step, _happened(roster, gang))

    def _gather(
        self, whole: Plan, roster: Roster, last: NodeGang | None
    ) -> tuple[list[Comer], str]:
        """The nodes of the next gang, once there are enough, and what has happened to the last.

        Those that are there after the end of a gang go on at once; others that are waited for may
        come a little later than the first of them.

        Raises:
            TooFew: when there are not enough in time.
        """
        cluster, asked = whole.cluster, whole.config.cluster.nnodes
        begun, settles, told = time.monotonic(), last is None, False
        while True:
            roster.poll()
            here, happened = roster.here, _happened(roster, last)
            words = (asked, cluster.min_nnodes, here, cluster.start_timeout_s, happened)
            waited = time.monotonic() - begun
            if len(here) >= cluster.min_nnodes:
                since_last = roster.waited(())
                quiet = waited if since_last is None else min(waited, since_last)
                if not settles or quiet >= cluster.settle_s or len(here) == cluster.nnodes:
                    return here, happened
            elif waited > cluster.start_timeout_s:
                raise TooFew(elastic_words.too_few(*words))
            elif not told:
                _tell(elastic_words.waiting(*words))
                settles = told = True
            time.sleep(ASK_S)

    def _form(
        self, whole: Plan, members: list[Comer], reason: Failure | None, happened: str
    ) -> Ticket:
        """Prepare an attempt on these nodes, and say so.

        Args:
            reason: why the last attempt has ended; None before the first.
        """
        plan = whole.formed(len(members))
        if reason is None:
            resume = plan.config.resume
            step = 0 if resume is None else whole_again(Path(resume)).step
            words = elastic_words.beginning(members, self.number, step, plan.sizes)
        else:
            plan, step = next_attempt(plan, self.folder)
            self.number = status.reopen(self.folder, failure.in_status(reason))
            counts = (self.plan.cluster.nnodes, len(members))
            sizes = (self.plan.sizes, plan.sizes)
            words = elastic_words.change(happened, counts, self.number, step, sizes)
        _tell(words)
        self.plan = plan
        hosts = {str(comer.node_rank): comer.host for comer in members}
        status.note_nodes(self.folder, hosts, plan.world_size)
        return describe(plan, self.folder, self.number)

    def _one(self, ticket: Ticket, place: Place, gang: NodeGang) -> list[Failure]:
        """One attempt: the failures on all nodes; empty when the run has done its work."""
        own = run_gang(self.plan, ticket, place, gang, self.notice, regroup=gang.regroup)
        summary = self.folder / "summary.json"
        if own is None and summary.exists():  # all ranks were there until the end
            return []
        # Ranks that have saved together take their time, each its own, to close their books.
        agreed = own is not None and own.agreed
        words = gang.words(self.plan.cluster.preempt_grace_s if agreed else LAST_WORDS_S)
        failures = [Failure(**word) for word in words if word is not None]
        failures += [] if own is None else [own]
        failures = explained_by_all(failures, gang.sights(), self.plan.cluster)
        if not failures:
            failures.append(failure.killed("the ranks ended before their last step"))
        return failures

    def _final(
        self, first: Failure, agreed: bool, step: int, gang: NodeGang, bounds: Bounds
    ) -> Failure | None:
        """The failure that ends the run; None when it goes on."""
        if self.notice.asked or first.kind in HOPELESS:
            return first
        gone = gang.gone()
        for comer in gone:
            if not gang.took_leave(comer):
                bar = bounds.after_loss(comer.node_rank, step)
                if bar is not None:
                    gang.roster.bar(comer.node_rank, bar)
        if gone or (gang.regrouping and agreed):
            return None
        if agreed:  # a rank was warned, and no node
            return first
        bar = bounds.after_failure(step)
        if bar is not None:
            return replace(first, cause=f"{first.cause} ({bar})") if bar else first
        _tell(failure.headline(first))
        return None


def open_roster(plan: Plan, place: Place, folder: Path) -> Roster:
    """The nodes of a run that node 0 has begun, which may come now."""
    own = comer_of(plan, 0)
    roster = Roster(place.store, own, plan.cluster.nnodes, _tell, differing)
    roster.say(folder=str(folder), begun=status.read(folder)["started"])
    return roster


def refuse_comers(plan: Plan) -> None:
    """Let the other nodes know that there will be no run.

    Raises:
        NoTicket: when the store cannot be served.
    """
    most = plan.cluster.nnodes
    roster = Roster(meet(plan.cluster).store, comer_of(plan, 0), most, _tell, differing)
    roster.finish(None, REFUSED, LAST_WORDS_S, others=most - 1)


def _happened(roster: Roster, last: NodeGang | None) -> str:
    """Who has gone since the last gang began, and who has come."""
    if last is None:
        return ""
    came = [comer for comer in roster.here if comer not in last.members]
    return elastic_words.events(last.gone(), came)


def _reason(first: Failure, agreed: bool, step: int, happened: str) -> Failure:
    """Why an attempt that is followed by another has ended, for the run's history."""
    if not happened:
        return first
    return Failure(None, "preempted" if agreed else "killed", happened, time.time(), step)


def _not_formed(cause: str, last: Failure | None) -> Failure:
    """No gang can be formed: the run ends, and can go on later."""
    step = 0 if last is None else last.step
    return Failure(None, "preempted", cause, time.time(), step, ordered=True)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
