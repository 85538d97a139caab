"""What the controllers of several nodes tell each other while their ranks run, and at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

import torch.distributed as dist

from components.cluster.answering import Answering
from components.cluster.handshake import ANSWER_S, Ticket

ASK_S = 0.05
"""How often the store is asked for what is awaited."""

Word = dict[str, Any] | None
"""How ranks ended: None is well, else an object that explains the failure."""


class Gone(Exception):
    """Node 0 does not answer any more."""


class Nodes:
    """The nodes of one gang, over the store that node 0 serves.

    Args:
        store: as `node_store` gives it.
        run_id: the gang's.
        node_rank, nnodes: this node among all.
        timeout_s: of the ranks' collectives. A network that fails for less must not end them.
    """

    def __init__(
        self, store: dist.Store, run_id: str, node_rank: int, nnodes: int, timeout_s: float
    ) -> None:
        self._store = Answering(dist.PrefixStore(run_id, store), ANSWER_S)
        self._patience_s = max(timeout_s, ANSWER_S)
        self._question: tuple[float, Future[bool]] | None = None
        self.node_rank = node_rank
        self._others = [node for node in range(nnodes) if node != node_rank]

    def end(self, word: Word, bad: bool, sights: Sequence[dict[str, Any]] = ()) -> None:
        """Leave this node's last word. A store that is gone is left alone.

        Args:
            bad: whether the ranks of the other nodes cannot go on.
            sights: where this node's ranks were when something went wrong.
        """
        try:
            self._store.set(f"sights/{self.node_rank}", json.dumps([*sights]))
            self._store.set(f"ended/{self.node_rank}", json.dumps(word))
            if bad:
                self._store.set("failed", "")
        except dist.DistError:
            pass

    def lost(self) -> bool:
        """Whether another node has come to a bad end, or node 0 does not answer.

        Returns soon: an answer that is awaited is asked for again at the next call.
        """
        if self._question is None:
            asked = self._store.put(lambda store: bool(store.check(["failed"])))
            self._question = time.monotonic(), asked
        since, asked = self._question
        try:
            failed = asked.result(ASK_S)
        except TimeoutError:
            return time.monotonic() - since > self._patience_s
        except dist.DistError:
            return True
        self._question = None
        return failed

    def others(self, timeout_s: float) -> dict[int, Word]:
        """The other nodes' last words, by node; those missing that are not in after `timeout_s`."""
        words: dict[int, Word] = {}
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                for node in self._others:
                    if node not in words and self._store.check([f"ended/{node}"]):
                        words[node] = json.loads(self._store.get(f"ended/{node}"))
                if len(words) == len(self._others) or time.monotonic() > deadline:
                    return words
                time.sleep(ASK_S)
        except dist.DistError:
            return words

    def sights(self) -> list[dict[str, Any]]:
        """What all nodes have seen of their ranks; call once `others` has their words."""
        found: list[dict[str, Any]] = []
        try:
            for node in [self.node_rank, *self._others]:
                if self._store.check([f"sights/{node}"]):
                    found += json.loads(self._store.get(f"sights/{node}"))
        except dist.DistError:
            pass
        return found

    def decide(self, word: Word, again: Ticket | None, listeners: int, timeout_s: float) -> None:
        """Node 0: say how the gang ended and whether another attempt follows.

        Waits until the other nodes know, for node 0 takes the store with it.

        Args:
            word: that of the whole gang.
            again: of the next attempt.
            listeners: nodes that will ask.
            timeout_s: how long they are waited for.
        """
        ticket = None if again is None else asdict(again)
        deadline = time.monotonic() + timeout_s
        try:
            self._store.set("verdict", json.dumps({"word": word, "again": ticket}))
            while self._store.add("heard", 0) < listeners and time.monotonic() < deadline:
                time.sleep(ASK_S)
        except dist.DistError:
            pass

    def verdict(self) -> tuple[Word, Ticket | None]:
        """Another node: what node 0 decides, waited for as long as it answers.

        Raises:
            Gone: when it does not.
        """
        try:
            while not self._store.check(["verdict"]):
                time.sleep(ASK_S)
            said = json.loads(self._store.get("verdict"))
            self._store.add("heard", 1)
        except dist.DistError as error:
            raise Gone from error
        again = said["again"]
        return said["word"], None if again is None else Ticket(**again)
