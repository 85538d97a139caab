"""One rank of a gang that torchrun or srun started: it joins the run that rank 0 decides.

Nobody here watches the ranks as our own launcher does. So the ranks tell of
their end themselves: rank 0 writes the run's status, and where rank 0 is gone
without a word, one of those that its death brought down.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from omegaconf import OmegaConf

from components.cluster.cluster import Cluster
from components.cluster.handshake import (
    NoTicket,
    Ticket,
    all_heard,
    announce,
    earlier_ticket,
    gang_store,
    receive,
)
from components.cluster.joined import Joined
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.signals import WARNING, call_on_signal
from components.errors import ConfigError
from train import failure, orders, past, status
from train.attempts import describe, show
from train.exit_codes import DONE, FAILED, exit_code
from train.failure import Failure
from train.follow import settle
from train.health.report import EXPLAINED, explained
from train.health.sight import Sight, look, place_path, with_stacks, with_words
from train.health.watch import Stalled, Watch
from train.last_words import suspects, told
from train.launch import tell
from train.run_plan import Plan
from train.targets import build
from train.worker import train_in_process

log = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 300.0
"""How long a rank waits to be told its run."""

TORCHRUN_S = 25.0
"""torchrun kills its ranks 30 s after it has passed a signal on: by then the end must be told."""

WATCH_S = 0.5
"""How often a rank looks whether those of its node come on."""

WORD_S = 2.0
"""How long a rank that lost its peers waits for the one that failed to say why."""


def earlier_folder(gang: Joined) -> Path | None:
    """The folder in which torchrun's last gang ran, when this one has been started in its place."""
    try:
        ticket = earlier_ticket(gang, JOIN_TIMEOUT_S)
    except NoTicket:
        return None
    return Path(ticket.folder) if ticket is not None and ticket.exit_code is None else None


def lead_gang(plan: Plan, folder: Path, gang: Joined, again: bool = False) -> int:
    """Rank 0: take the folder, tell the others of it, and train. Returns only when all is well.

    Args:
        again: the folder holds earlier attempts, which this one continues.

    Raises:
        ConfigError: when another run or process has the folder.
    """
    attempt = status.reopen(folder) if again else status.claim(folder)
    member = Member(folder, gang, attempt, plan.cluster)
    member.listen()
    try:
        show(plan, folder)
        ticket = describe(plan, folder, attempt)
        announce(gang_store(gang, JOIN_TIMEOUT_S), ticket)
    except Exception as error:
        return tell(folder, failure.record(folder, None, error), attempt)
    return member.take_part()


def follow_rank(gang: Joined) -> int:
    """Any other rank. Returns the exit code, unless training fails."""
    call_on_signal(lambda signum: os._exit(128 + signum))
    try:
        ticket = receive(gang_store(gang, JOIN_TIMEOUT_S), JOIN_TIMEOUT_S)
    except NoTicket as error:
        print(f"rank {gang.rank}: {error}", file=sys.stderr)
        return FAILED
    if ticket.exit_code is not None:
        return ticket.exit_code
    config = OmegaConf.create(ticket.config)
    cluster: Cluster = build(config.cluster, "cluster")
    folder = settle(ticket)
    if ticket.attempt > 1:
        past.put_aside(folder, ticket.attempt - 1, [gang.rank])
    member = Member(folder, gang, ticket.attempt, cluster)
    member.listen()
    return member.take_part()


def dismiss(gang: Joined, exit_code: int) -> None:
    """Let the other ranks know that there is no run to join."""
    if gang.world_size > 1:
        store = gang_store(gang, JOIN_TIMEOUT_S)
        announce(store, Ticket(exit_code=exit_code))
        if not gang.hosted:  # the store ends with this process
            all_heard(store, gang.world_size - 1, JOIN_TIMEOUT_S)


@dataclass
class Member:
    """A rank that trains, and tells of its end.

    Attributes:
        folder: the run's.
        gang: this process's place.
        attempt: which start of the run it is.
        cluster: how long a rank has to save after a warning, and how long none may come on.
    """

    folder: Path
    gang: Joined
    attempt: int
    cluster: Cluster
    _notice: Notice = field(default_factory=Notice)
    _sights: list[Sight] = field(default_factory=list)
    _ending: threading.Lock = field(default_factory=threading.Lock)

    def listen(self) -> None:
        """Heed signals, in place of whoever did before."""
        call_on_signal(self._signalled)

    def take_part(self) -> int:
        """Train. Ends the process unless all is well; then the exit code."""
        place_path(self.folder, self.gang.rank).unlink(missing_ok=True)  # of an earlier attempt
        threading.Thread(target=self._watch, name="stall-watch", daemon=True).start()
        own = train_in_process(self.folder, None, self.gang, self.attempt, self._notice)
        self._ending.acquire()  # from here on, one end is being told already
        if own is not None:
            self._end(own, exit_code(own), wait=own.victim and not own.agreed)
        if self.gang.rank == 0:
            status.finish(self.folder, "completed", attempt=self.attempt)
            # By the log, which rank 0 shows: its standard output is the rank's by now.
            log.info("completed in %.0f s: %s", status.seconds(self.folder), self.folder)
        return DONE

    def _watch(self) -> None:
        """In a thread of its own: end this rank when none of its node comes on any more."""
        watch = Watch(self.folder, self._neighbours(), self.cluster.stall_s)
        try:
            while True:
                time.sleep(WATCH_S)
                watch.check()
        except Stalled:
            self._sights = watch.sights
            own = Failure(self.gang.rank, "stalled", "the ranks do not come on", time.time())
            self._stop(own, FAILED, wait=True)

    def _signalled(self, signum: int) -> None:
        """In a thread of its own: note a warning, or end."""
        rank = self.gang.rank
        if signum not in WARNING:
            self._stop(orders.at_once(signum, self._notice, rank), 128 + signum, wait=True)
        elif any(not one.agreed for one in self._told()):
            # No scheduler's warning: torchrun ends the peers of a rank that has failed.
            cause = f"stopped by {signal.Signals(signum).name}"
            own = Failure(rank, "stopped", cause, time.time())
            self._stop(own, 128 + signum, wait=True)
        elif self._notice.asked is None:
            self._notice.warn(signum)
            threading.Thread(target=self._await, name="grace", daemon=True).start()
        elif self._notice.warn(signum):
            self._stop(orders.at_once(signum, self._notice, rank), PREEMPTED, wait=False)

    def _await(self) -> None:
        """End a rank that has not heeded a warning in time."""
        limit = TORCHRUN_S if self.gang.launcher == "torchrun" else math.inf
        grace_s = min(self.cluster.preempt_grace_s, limit)
        time.sleep(grace_s)
        self._stop(orders.overdue(self._notice, grace_s, self.gang.rank), PREEMPTED, wait=True)

    def _stop(self, own: Failure, code: int, wait: bool) -> None:
        if self._ending.acquire(blocking=False):
            failure.write_down(self.folder, own)
            self._end(own, code, wait)

    def _end(self, own: Failure, code: int, wait: bool) -> NoReturn:
        """Tell how the run failed if that is for this rank to do, and end the process.

        Not by sys.exit: destructors of a process group whose peers are gone may never return.

        Args:
            wait: for what the others say; one that says nothing is suspected.
        """
        if own.kind == "collective" and all(one.victim for one in self._told()):
            self._sights = with_stacks(self.folder, look(self.folder, self._neighbours()))
        if wait:
            _within(WORD_S, lambda: not suspects(self._told(), self._neighbours()))
        with suppress(OSError, ValueError):
            first = (self._first() if wait else None) or own
            if self.gang.rank == 0:
                try:
                    tell(self.folder, first, self.attempt)
                except ConfigError as refusal:
                    print(f"refused: {refusal}", file=sys.stderr)
            elif (own.victim or own.kind == "stalled") and not (
                own.agreed or self._told_by_rank_0()
            ):
                first = self._first() or own
                words = failure.in_words(first, self.folder)
                log.error("rank 0 has not told of the end. %s", words)
                tell(self.folder, first, self.attempt)
            sys.stdout.flush()
        os._exit(code)

    def _told_by_rank_0(self) -> bool:
        return _within(WORD_S + 1, lambda: not status.running(self.folder))

    def _first(self) -> Failure | None:
        failures = self._told()
        sights = with_words(self._sights, failures)
        silent = [sight for sight in sights if not sight.spoke]
        first = failure.first(failures)
        if first is not None and not any(sight.process == "gone" for sight in silent):
            first = explained(first, sights, self.cluster)
            if first.kind in EXPLAINED and sights:
                return first
        return failure.first([*failures, *suspects(failures, self._neighbours())])

    def _told(self) -> list[Failure]:
        return told(self.folder, range(self.gang.world_size), [])

    def _neighbours(self) -> range:
        """The ranks of this node, which certainly write into the same folder."""
        start = self.gang.rank - self.gang.local_rank
        return range(start, start + self.gang.local_world_size)


def _within(seconds: float, happened: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
