"""One rank of a gang that torchrun or srun started: it joins the run that rank 0 decides.

Nobody here watches the ranks as our own launcher does. So the ranks tell of
their end themselves: rank 0 writes the run's status, and where rank 0 is gone
without a word, one of those that its death brought down.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from components.cluster.handshake import NoTicket, Ticket, all_heard, announce, gang_store, receive
from components.cluster.joined import Joined
from components.cluster.preemption import Notice
from components.cluster.signals import call_on_signal
from components.errors import ConfigError
from train import failure, status
from train.failure import Failure
from train.launch import DONE, FAILED, REFUSED, describe, settle, tell
from train.run_plan import Plan
from train.worker import train_in_process

log = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 300.0
"""How long a rank waits to be told its run."""

WORD_S = 2.0
"""How long a rank that lost its peers waits for the one that failed to say why."""


def lead_gang(plan: Plan, folder: Path, gang: Joined) -> int:
    """Rank 0: claim the folder, tell the others of it, and train. Returns only when all is well.

    Raises:
        ConfigError: when the folder already holds a run.
    """
    status.claim(folder)
    try:
        ticket = describe(plan, folder)
        announce(gang_store(gang, JOIN_TIMEOUT_S), ticket)
    except Exception as error:
        return tell(folder, failure.record(folder, None, error))
    return _take_part(folder, gang)


def follow_rank(gang: Joined) -> int:
    """Any other rank. Returns the exit code, unless training fails."""
    call_on_signal(lambda signum: os._exit(128 + signum))
    try:
        ticket = receive(gang_store(gang, JOIN_TIMEOUT_S), JOIN_TIMEOUT_S)
    except NoTicket as error:
        print(f"rank {gang.rank}: {error}", file=sys.stderr)
        return FAILED
    return _take_part(settle(ticket), gang) if ticket.exit_code is None else ticket.exit_code


def dismiss(gang: Joined, exit_code: int) -> None:
    """Let the other ranks know that there is no run to join."""
    if gang.world_size > 1:
        store = gang_store(gang, JOIN_TIMEOUT_S)
        announce(store, Ticket(exit_code=exit_code))
        if not gang.hosted:  # the store ends with this process
            all_heard(store, gang.world_size - 1, JOIN_TIMEOUT_S)


def _take_part(folder: Path, gang: Joined) -> int:
    ending = threading.Lock()

    def told_to_end(signum: int) -> None:
        if ending.acquire(blocking=False):
            stopped = failure.stopped_by(folder, gang.rank, signum)
            _end(folder, gang, stopped, 128 + signum)

    call_on_signal(told_to_end)
    own = train_in_process(folder, None, gang, 1, Notice())
    ending.acquire()  # from here on, one end is being told already
    if own is not None:
        _end(folder, gang, own, REFUSED if own.kind == "refused" else FAILED)
    if gang.rank == 0:
        status.finish(folder, "completed")
    return DONE


def _end(folder: Path, gang: Joined, own: Failure, code: int) -> NoReturn:
    """Tell how the run failed if that is for this rank to do, and end the process.

    Not by sys.exit: destructors of a process group whose peers are gone may never return.
    """
    if own.victim:
        _within(WORD_S, lambda: not failure.suspects(_told(folder, gang), _neighbours(gang)))
    with suppress(OSError, ValueError):
        if gang.rank == 0:
            try:
                tell(folder, _first(folder, gang) or own)
            except ConfigError as refusal:
                print(f"refused: {refusal}", file=sys.stderr)
        elif own.victim and not _within(WORD_S + 1, lambda: not status.running(folder)):
            first = _first(folder, gang) or own
            log.error("rank 0 has not told of the end. %s", failure.in_words(first, folder))
            tell(folder, first)
        sys.stdout.flush()
    os._exit(code)


def _first(folder: Path, gang: Joined) -> Failure | None:
    failures = _told(folder, gang)
    return failure.first([*failures, *failure.suspects(failures, _neighbours(gang))])


def _told(folder: Path, gang: Joined) -> list[Failure]:
    return failure.told(folder, range(gang.world_size), [])


def _neighbours(gang: Joined) -> range:
    """The ranks of this node, which certainly write into the same folder."""
    start = gang.rank - gang.local_rank
    return range(start, start + gang.local_world_size)


def _within(seconds: float, happened: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
