"""The nodes of one attempt of an elastic run, as node 0 sees them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from components.cluster.nodes import ASK_S, Word
from components.cluster.roll import Comer
from components.cluster.roster import Roster
from train.run_plan import Plan
from train.same_config import given

LEFT = "is gone without a word"


@dataclass
class NodeGang:
    """The nodes that take part, node 0 first.

    Attributes:
        attempt: its number.
        most: nodes that the run may have.
        settle_s: how long after a node has come the gang makes way for one with that node.
        tell: takes a line for the user.
        regrouping: whether it makes way.
        own_sights: where node 0's ranks were when something went wrong.
    """

    roster: Roster
    members: Sequence[Comer]
    attempt: int
    most: int
    settle_s: float
    tell: Callable[[str], None]
    regrouping: bool = False
    own_sights: Sequence[dict[str, Any]] = ()

    def lost(self) -> bool:
        """Whether a node has come to a bad end, or is gone."""
        self.roster.poll()
        for comer in self.members[1:]:
            sign = self.roster.end_of(comer, self.attempt)
            if sign.bad if sign is not None else comer.number in self.roster.gone:
                return True
        return False

    def end(self, word: Word, bad: bool, sights: Sequence[dict[str, Any]]) -> None:
        """Node 0's own ranks have ended; `word` stays here, for node 0 decides."""
        self.own_sights = sights
        if bad:
            self.roster.say(failed=True)

    def regroup(self) -> bool:
        """Whether ranks are to save and end, so that a node that has come can take part."""
        if self.regrouping:
            return True
        waited = self.roster.waited(self.members)
        if waited is None:
            return False
        self.regrouping = waited >= self.settle_s or len(self.roster.here) >= self.most
        if self.regrouping:
            self.tell("all ranks save, and go on with the nodes that have come")
        return self.regrouping

    def words(self, timeout_s: float) -> list[Word]:
        """The other nodes' last words. Those that say nothing in time are taken for lost."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.roster.poll()
            ends = [(comer, self.roster.end_of(comer, self.attempt)) for comer in self.members[1:]]
            silent = [c for c, end in ends if end is None and c.number not in self.roster.gone]
            if not silent or time.monotonic() > deadline:
                break
            time.sleep(ASK_S)
        for comer in silent:
            self.roster.drop(comer, LEFT)
        return [end.word for _, end in ends if end is not None]

    def sights(self) -> list[dict[str, Any]]:
        """What all nodes have seen of their ranks; call once `words` are in."""
        ends = [self.roster.end_of(comer, self.attempt) for comer in self.members[1:]]
        return [*self.own_sights, *(sight for end in ends if end for sight in end.sights)]

    def gone(self) -> dict[Comer, str]:
        """Why each node that is here no longer has gone."""
        gone = self.roster.gone
        return {comer: gone[comer.number] for comer in self.members if comer.number in gone}

    def took_leave(self, comer: Comer) -> bool:
        """Whether a node that has gone was told to, rather than lost."""
        return self.roster.last_sign(comer).left is not None


def comer_of(plan: Plan, node: int) -> Comer:
    """A node as it comes to a run: this machine, with what it was given."""
    host = socket.gethostname()
    return Comer(0, node, host, plan.local_world_size, plan.device, given(plan))
