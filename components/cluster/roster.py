"""Node 0's view of the nodes of an elastic run: who is here, who has gone, what they are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import torch.distributed as dist

from components.cluster.handshake import Ticket
from components.cluster.nodes import ASK_S, Word
from components.cluster.roll import (
    BEAT_S,
    COMERS,
    HEARD,
    LOST_S,
    PREFIX,
    ROLL,
    Comer,
    Roll,
    Sign,
    read_comer,
    read_sign,
    written,
)

DOUBT_S = 12 * BEAT_S
"""How long one that has the rank of a node that is here is held against that one's signs."""

SILENT = f"has given no sign of life for {LOST_S:g} s"


@dataclass
class Known:
    """A node that has come.

    Attributes:
        since: when it came.
        seen: when its last new sign was read.
        sign: its last.
    """

    comer: Comer
    since: float
    seen: float
    sign: Sign = field(default_factory=Sign)


class Roster:
    """The nodes that have come to an elastic run. Nothing changes but in `poll`, `drop` and `bar`.

    Args:
        store: that node 0 serves.
        own: node 0 itself.
        most: nodes that the run may have.
        tell: takes a line for the user.
        unlike: in what another node, by its `given`, differs from node 0; None for nothing.
        clock: seconds, of any origin.

    Attributes:
        gone: why each node that was here is here no longer, by its number.
    """

    def __init__(
        self,
        store: dist.Store,
        own: Comer,
        most: int,
        tell: Callable[[str], None],
        unlike: Callable[[str, str], str | None] = lambda own, its: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = dist.PrefixStore(PREFIX, store)
        self._own = own
        self._most = most
        self._tell = tell
        self._unlike = unlike
        self._clock = clock
        self._here: dict[int, Known] = {}
        self._doubted: list[Known] = []
        self._past: dict[int, Known] = {}
        self._read = 0
        self._roll = Roll()
        self.gone: dict[int, str] = {}
        self._barred: dict[int, str] = {}

    @property
    def here(self) -> list[Comer]:
        """Who could take part now, node 0 first, by node rank."""
        others = sorted((one.comer for one in self._here.values()), key=lambda c: c.node_rank)
        return [self._own, *others]

    def waited(self, members: Collection[Comer]) -> float | None:
        """Seconds since the last one came that is not among `members`; None without any."""
        since = [one.since for one in self._here.values() if one.comer not in members]
        return self._clock() - max(since) if since else None

    def say(self, **changes: Any) -> None:
        """Tell all other nodes; what is not named here holds on."""
        self._roll = replace(self._roll, **changes)
        self._store.set(ROLL, written(self._roll))

    def call(self, ticket: Ticket, members: Collection[Comer]) -> None:
        """Begin an attempt with these nodes, node 0 first; their places are in their order."""
        places = {str(comer.number): place for place, comer in enumerate(members)}
        self.say(ticket=ticket, places=places, failed=False)

    def end_of(self, comer: Comer, attempt: int) -> Sign | None:
        """What a node has said of the end of its ranks; None as long as it has not."""
        sign = self.last_sign(comer)
        return sign if sign.attempt == attempt else None

    def last_sign(self, comer: Comer) -> Sign:
        """The last of a node that has come, be it here or gone."""
        return (self._here.get(comer.number) or self._past[comer.number]).sign

    def poll(self) -> None:
        """See who has come and who has gone."""
        for known in [*self._here.values(), *self._doubted]:
            self._look(known)
        for known in [*self._here.values()]:
            if known.sign.left is not None:
                self._remove(known, known.sign.left)
            elif self._clock() - known.seen > LOST_S:
                self.drop(known.comer, SILENT)
        while self._read < self._store.add(COMERS, 0):
            key = f"comer/{self._read + 1}"
            if not self._store.check([key]):  # it is about to
                break
            self._read += 1
            self._receive(read_comer(self._store.get(key)))
        for known in [*self._doubted]:
            self._judge(known)

    def drop(self, comer: Comer, why: str) -> None:
        """Take a node for lost."""
        if (known := self._here.get(comer.number)) is not None:
            self._remove(known, why)
            self.say(dropped=[*self._roll.dropped, comer.number])

    def bar(self, node_rank: int, why: str) -> None:
        """Take no node of this rank in any more, nor one that is here already."""
        self._barred[node_rank] = why
        for known in [*self._here.values()]:
            if known.comer.node_rank == node_rank:
                self._remove(known, why)
                self._turn_away(known.comer, why)

    def finish(self, word: Word, exit_code: int, timeout_s: float, others: int = 0) -> None:
        """Tell all other nodes how the run has ended, and wait until they have heard.

        Args:
            others: how many are waited for at least, whether they have come or not.
        """
        self.say(over=True, word=word, exit_code=exit_code)
        deadline = self._clock() + timeout_s
        while self._clock() < deadline:
            self.poll()
            if self._store.add(HEARD, 0) >= max(len(self._here), others):
                return
            time.sleep(ASK_S)

    def _look(self, known: Known) -> None:
        key = f"sign/{known.comer.number}"
        if not self._store.check([key]):
            return
        sign = read_sign(self._store.get(key))
        if sign.beat != known.sign.beat:
            known.seen = self._clock()
        known.sign = sign

    def _receive(self, comer: Comer) -> None:
        now = self._clock()
        if (problem := self._problem(comer)) is not None:
            self._turn_away(comer, problem)
            return
        self._doubted.append(Known(comer, now, now))

    def _problem(self, comer: Comer) -> str | None:
        if comer.node_rank in self._barred:
            return self._barred[comer.node_rank]
        if not 0 < comer.node_rank < self._most:
            return (
                f"has cluster.node_rank={comer.node_rank}, and this run's nodes are 0, the one "
                f"that it came to, to {self._most - 1}: give each its own"
            )
        if (comer.ranks, comer.device) != (self._own.ranks, self._own.device):
            return (
                f"has {comer.ranks} ranks on {comer.device}, and node 0 has {self._own.ranks} on "
                f"{self._own.device}: each node has to have as many. Set cluster.nproc_per_node "
                "to what all of them have"
            )
        return self._unlike(self._own.given, comer.given)

    def _turn_away(self, comer: Comer, problem: str) -> None:
        self._tell(f"{comer} {problem}")
        turned_away = {**self._roll.turned_away, str(comer.number): problem}
        self.say(turned_away=turned_away)

    def _judge(self, known: Known) -> None:
        """Take one in that has come, unless another has its rank, who may be gone."""
        rank = known.comer.node_rank
        elder = next((one for one in self._here.values() if one.comer.node_rank == rank), None)
        if elder is not None:
            if self._clock() - known.since < DOUBT_S:
                return
            if elder.seen > known.since + 2 * BEAT_S:
                self._doubted.remove(known)
                self._turn_away(
                    known.comer,
                    f"has cluster.node_rank={rank}, as {elder.comer.host} has, which is here: give "
                    "each node its own",
                )
                return
            self.drop(elder.comer, "was started anew")
        self._doubted.remove(known)
        self._here[known.comer.number] = known
        self._tell(f"{known.comer} is here")

    def _remove(self, known: Known, why: str) -> None:
        number = known.comer.number
        self._past[number] = self._here.pop(number)
        self.gone[number] = why
