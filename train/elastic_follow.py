"""A node that takes part, as long as it is there, in an elastic run that node 0 decides."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from components.cluster.cluster import Cluster
from components.cluster.handshake import KNOCK_AGAIN_S, NoTicket, Ticket, own_address
from components.cluster.line import CutOff, Line, answers
from components.cluster.nodes import Gone, Word
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.roll import LOST_S, Roll
from components.cluster.signals import Interrupted
from train import failure, status
from train.elastic_gang import comer_of
from train.exit_codes import FAILED, REFUSED
from train.failure import Failure
from train.node_gang import Place, meet, run_gang
from train.run_plan import Plan

SHARED_S = 90.0
"""How long a node waits to see what another has written: file servers' clients ask again after a
minute at most."""


@dataclass
class Seat:
    """This node's place in one attempt: what a gang asks of its other nodes."""

    line: Line
    attempt: int
    notice: Notice

    def lost(self) -> bool:
        """Whether the gang has come to a bad end, or node 0 does not answer, or goes on without."""
        roll = self.line.roll
        assert roll is not None
        try:
            self.line.check()
        except (Gone, CutOff):
            return True
        other = roll.ticket is None or roll.ticket.attempt != self.attempt
        return roll.failed or roll.over or other or self.line.number in roll.dropped

    def end(self, word: Word, bad: bool, sights: Sequence[dict[str, Any]]) -> None:
        """Leave this node's last word, and say whether the node goes with its ranks."""
        left = None
        if word is not None and (word["ordered"] or self.notice.asked is not None):
            left = "was stopped and left" if bad else "was warned and left"
        self.line.say(attempt=self.attempt, word=word, bad=bad, sights=sights, left=left)


@dataclass(frozen=True)
class Seated:
    """What a gang needs to know of a node that takes part in it."""

    cluster: Cluster
    local_world_size: int


def follow_elastic(plan: Plan) -> int:
    """Run this node's ranks, in each attempt that node 0 calls it to; the exit code.

    Raises:
        Interrupted: by the user, or before node 0 has answered; this node's ranks are gone by then.
    """
    cluster, node = plan.cluster, plan.cluster.node_rank
    try:
        address, _ = own_address(cluster)
        print(f"node {node} at {address} waits for node 0", flush=True)
        there = True
        while there:
            place = meet(cluster)
            line = Line(place.store)
            try:
                return _take_part(plan, place, line)
            except CutOff:
                _tell(node, f"node 0 has not answered for {LOST_S:g} s; trying to reach it again")
                there = answers(cluster)
            except Gone:
                there = False
            line.close()
    except NoTicket as error:
        _tell(node, str(error))
        return FAILED
    _tell(node, "node 0 is gone, and the run with it")
    if line.roll is not None and line.roll.folder:
        again = f"python -m train resume={line.roll.folder} cluster.node_rank={node}"
        print(f"go on with: {again}", file=sys.stderr)
    return PREEMPTED


def _take_part(plan: Plan, place: Place, line: Line) -> int:
    """From coming to the end of the run, or of this node's part in it; the exit code.

    Raises:
        NoTicket: when node 0 says nothing.
        Gone, CutOff: when it does not answer any more.
    """
    node, limit = plan.cluster.node_rank, plan.cluster.start_timeout_s
    if not line.until(lambda: line.roll, limit):
        raise NoTicket(f"no word from node 0 within {limit:g} s: did it end with an error?")
    assert line.roll is not None
    if not line.roll.over and not _shared(line.roll):
        _tell(node, f"refused: {_not_shared(line.roll.folder)}")
        return REFUSED
    try:
        return _attempts(plan, place, line)
    except Interrupted as stop:
        if line.number:
            line.say(left="was stopped and left")
        if not stop.warning:
            raise
        _tell(node, str(stop))
        return PREEMPTED


def _attempts(plan: Plan, place: Place, line: Line) -> int:
    node, notice = plan.cluster.node_rank, Notice()
    facts = comer_of(plan, node)
    line.come(facts)
    seen = 0
    while True:
        line.until(partial(_news, line, seen))
        roll, number = line.roll, str(line.number)
        assert roll is not None
        if roll.over:
            return _over(node, roll)
        if number in roll.turned_away:
            _tell(node, f"refused: this node {roll.turned_away[number]}")
            return REFUSED
        if line.number in roll.dropped:
            _tell(node, "node 0 had taken this node for lost; it comes again")
            line.come(facts)
            continue
        assert roll.ticket is not None
        seat = Seat(line, roll.ticket.attempt, notice)
        if not _ready(roll.ticket, seat):
            line.say(left="does not see what node 0 writes into the run's folder, and left")
            _tell(node, f"refused: {_not_shared(roll.folder)}")
            return REFUSED
        if seen == 0:
            words = f"node {node} takes part in {roll.folder}; node 0 shows how it goes"
            print(words, flush=True)
        seen = roll.ticket.attempt
        if seat.lost():
            seat.end(
                asdict(failure.of_controller("the gang has ended before it began")),
                bad=True,
                sights=[],
            )
            continue
        cluster = plan.cluster.formed(len(roll.places), roll.places[number])
        seated = Seated(cluster, plan.local_world_size)
        own = run_gang(seated, roll.ticket, place, seat, notice)
        if own is not None and notice.asked is not None:
            _tell(node, f"{own.cause}; the run goes on without this node if others are left")
            return PREEMPTED


def _news(line: Line, seen: int) -> bool:
    """Whether node 0 has said something that this node has to heed.

    Args:
        seen: the last attempt in which it took part.
    """
    roll, number = line.roll, line.number
    if roll is None:
        return False
    called = roll.ticket is not None and roll.ticket.attempt > seen and str(number) in roll.places
    return called or roll.over or str(number) in roll.turned_away or number in roll.dropped


def _over(node: int, roll: Roll) -> int:
    if not roll.folder:
        _tell(node, "node 0 refused the run; its message says why")
    elif roll.word is not None:
        _tell(node, failure.in_words(Failure(**roll.word), Path(roll.folder), node))
    return roll.exit_code


def _shared(roll: Roll) -> bool:
    """Whether this node sees the run's folder, and the same one as node 0."""
    folder = Path(roll.folder)
    return _in_time(lambda: status.read(folder).get("started") == roll.begun)


def _ready(ticket: Ticket, seat: Seat) -> bool:
    """Whether this node's ranks will read the attempt's config and not an earlier one's, if any."""
    config = Path(ticket.folder) / "config.yaml"

    def seen() -> bool:
        return seat.lost() or (config.exists() and config.read_text() == ticket.config)

    return _in_time(seen)


def _in_time(seen: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SHARED_S
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(KNOCK_AGAIN_S)
    return True


def _not_shared(folder: str) -> str:
    return (
        f"hydra.run.dir={folder} on node 0 is not the folder that this node sees under this name, "
        "and a run goes on from its checkpoints when nodes come and go. Set hydra.run.dir to a "
        "place that all nodes share."
    )


def _tell(node: int, line: str) -> None:
    print(f"node {node}: {line}", file=sys.stderr, flush=True)
