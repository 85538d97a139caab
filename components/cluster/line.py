"""A node's line to node 0 of an elastic run: it shows that the node lives, and hears node 0.

In a thread of its own: a store behind a cut link answers nothing, and a question to it blocks for
as long as the cut lasts. The main thread is never to wait for it, or no signal would reach it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import torch.distributed as dist

from components.cluster.cluster import Cluster
from components.cluster.handshake import KNOCK_AGAIN_S, KNOCK_S
from components.cluster.nodes import ANSWER_S, ASK_S, Gone
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
    read_roll,
    written,
)


class CutOff(Exception):
    """Node 0 has given no answer for so long that it has taken this node for lost."""


class Line:
    """Speaks to node 0 and hears it.

    Args:
        store: that node 0 serves, of this line's own.

    Attributes:
        roll: what node 0 says; None before it has said anything.
        number: this node's; 0 before it has come.
    """

    def __init__(self, store: dist.Store) -> None:
        self._store = dist.PrefixStore(PREFIX, store)
        self.roll: Roll | None = None
        self.number = 0
        self._facts: Comer | None = None
        self._sign = Sign()
        self._beat = 0
        self._heard = time.monotonic()
        self._gone = False
        self._closed = False
        self._wake = Event()
        Thread(target=self._run, name="line-to-node-0", daemon=True).start()

    def come(self, facts: Comer) -> None:
        """Be one of the nodes that could take part, under a number that node 0's store gives.

        None is given once the run is over.
        """
        self.number, self._sign, self._facts = 0, Sign(), facts
        self._wake.set()
        self.until(lambda: self.number or self._closed)

    def say(self, **changes: Any) -> None:
        """Tell node 0; what is not named here holds on. Waits a little until it has been said."""
        self._sign = replace(self._sign, **changes)
        beat, deadline = self._beat + 1, time.monotonic() + ANSWER_S
        self._wake.set()
        # One that has begun before may not have it yet.
        while self._beat <= beat and not self._closed and time.monotonic() < deadline:
            try:
                self.check()
            except (Gone, CutOff):
                return
            self._wake.set()
            time.sleep(ASK_S)

    def check(self) -> None:
        """See that node 0 answers.

        Raises:
            Gone: when its process is not there any more.
            CutOff: when it has not answered for long.
        """
        if self._gone:
            raise Gone
        if time.monotonic() - self._heard > LOST_S:
            raise CutOff

    def until(self, happened: Callable[[], object], timeout_s: float = float("inf")) -> bool:
        """Wait for something; whether it happened in time.

        Raises:
            Gone, CutOff: as from `check`.
        """
        deadline = time.monotonic() + timeout_s
        while not happened():
            self.check()
            if time.monotonic() > deadline:
                return False
            time.sleep(ASK_S)
        return True

    def close(self) -> None:
        """Say and hear nothing any more, as after the end of the run."""
        self._closed = True

    def _run(self) -> None:
        try:
            while not self._closed:
                self._exchange()
                self._wake.wait(BEAT_S)
                self._wake.clear()
        except (dist.DistError, RuntimeError):
            self._gone = True

    def _exchange(self) -> None:
        if self._facts is not None:
            number = self._store.add(COMERS, 1)
            self._store.set(f"comer/{number}", written(replace(self._facts, number=number)))
            self.number, self._facts = number, None
        beat = self._beat + 1
        if self.number:
            self._store.set(f"sign/{self.number}", written(replace(self._sign, beat=beat)))
        if self._store.check([ROLL]):  # an answer: what was set before it has arrived
            roll = read_roll(self._store.get(ROLL))
            if roll.over:  # node 0 goes as soon as all have heard, and its store with it
                self._store.add(HEARD, 1)
                self._closed = True
            self.roll = roll
        self._beat, self._heard = beat, time.monotonic()


def answers(cluster: Cluster) -> bool:
    """Wait until node 0's host answers again, within `cluster.start_timeout_s`; whether it does.

    One that answers that nobody listens there has lost node 0's process for good.
    """
    assert cluster.rdzv_endpoint is not None
    host, _, port = cluster.rdzv_endpoint.rpartition(":")
    deadline = time.monotonic() + cluster.start_timeout_s
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=KNOCK_S).close()
            return True
        except ConnectionRefusedError:
            return False
        except OSError:
            time.sleep(KNOCK_AGAIN_S)
    return False
