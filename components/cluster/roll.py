"""What node 0 of an elastic run and the other nodes say to each other.

Each writes what it has to say into one entry of the store that it alone writes, whole: node 0 the
roll, every other node its sign. Whoever reads late, or twice, reads what holds now.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from components.cluster.handshake import Ticket
from components.cluster.nodes import Word

PREFIX = "shardlab/elastic"
COMERS, ROLL, HEARD = "comers", "roll", "heard"

BEAT_S = 0.5
"""How often a node gives a sign of life, and hears what node 0 says."""

LOST_S = 30.0
"""A node that gives no sign for so long is taken for lost. A shorter cut only stalls a gang."""


@dataclass(frozen=True)
class Comer:
    """A node that has come, of which the same machine may be another one later.

    Attributes:
        number: in the order of coming, from 1; node 0 has 0.
        node_rank: as the user gives it.
        host: its name.
        ranks: that it would run.
        device: `cpu` or `cuda`.
        given: its config, for whoever compares it with node 0's.
    """

    number: int
    node_rank: int
    host: str
    ranks: int
    device: str
    given: str = ""

    def __str__(self) -> str:
        return f"node {self.node_rank} ({self.host})"


@dataclass(frozen=True)
class Sign:
    """What a node says.

    Attributes:
        beat: differs from one sign to the next.
        attempt: the last one in which its ranks took part and have ended.
        word: how they ended.
        bad: whether the other nodes' ranks cannot go on.
        sights: where its ranks were when something went wrong.
        left: why the node takes part no longer, in words that follow its name.
    """

    beat: int = 0
    attempt: int = 0
    word: Word = None
    bad: bool = False
    sights: Sequence[dict[str, Any]] = field(default_factory=list)
    left: str | None = None


@dataclass(frozen=True)
class Roll:
    """What node 0 says.

    Attributes:
        folder: the run's.
        begun: when the run began, by which a node knows that it sees the same folder.
        ticket: of the present attempt; None before the first.
        places: of the nodes in its gang, by their number as text.
        failed: the present attempt has come to a bad end.
        dropped: numbers of nodes that were taken for lost; one that lives may come again.
        turned_away: why a node may not take part, by its number as text.
        over: whether the run has ended; then `word` says how, and `exit_code` what to exit with.
    """

    folder: str = ""
    begun: str = ""
    ticket: Ticket | None = None
    places: dict[str, int] = field(default_factory=dict)
    failed: bool = False
    dropped: list[int] = field(default_factory=list)
    turned_away: dict[str, str] = field(default_factory=dict)
    over: bool = False
    word: Word = None
    exit_code: int = 0


def written(entry: Comer | Sign | Roll) -> str:
    """As it stands in the store."""
    return json.dumps(asdict(entry))


def read_comer(text: bytes) -> Comer:
    """What `written` made of one."""
    return Comer(**json.loads(text))


def read_sign(text: bytes) -> Sign:
    """What `written` made of one."""
    return Sign(**json.loads(text))


def read_roll(text: bytes) -> Roll:
    """What `written` made of one."""
    content: dict[str, Any] = json.loads(text)
    if content["ticket"] is not None:
        content["ticket"] = Ticket(**content["ticket"])
    return Roll(**content)
