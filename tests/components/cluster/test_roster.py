"""Who is here, who has gone, and what they are told, in a store without processes around it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch.distributed as dist

from components.cluster.handshake import Ticket
from components.cluster.roll import (
    COMERS,
    LOST_S,
    PREFIX,
    ROLL,
    Comer,
    Roll,
    Sign,
    read_comer,
    read_roll,
    read_sign,
    written,
)
from components.cluster.roster import DOUBT_S, Roster

ZERO = Comer(0, 0, "a", ranks=2, device="cpu")


@dataclass
class Room:
    """A roster, its clock, what it has said to its user, and nodes without processes."""

    now: float = 0.0
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = dist.PrefixStore(PREFIX, dist.HashStore())
        self.roster = self.of(ZERO)

    def of(self, own: Comer, most: int = 4) -> Roster:
        base = self.store.underlying_store
        return Roster(base, own, most, self.told.append, clock=lambda: self.now)

    def comes(self, node_rank: int, host: str = "b", ranks: int = 2) -> Comer:
        """A node comes, and has been seen."""
        number = self.store.add(COMERS, 1)
        comer = Comer(number, node_rank, host, ranks, "cpu")
        self.store.set(f"comer/{number}", written(comer))
        self.signs(comer, Sign(beat=1))
        self.roster.poll()
        return comer

    def signs(self, comer: Comer, sign: Sign) -> None:
        self.store.set(f"sign/{comer.number}", written(sign))

    def passes(self, seconds: float, *alive: Comer) -> None:
        """Time passes, in which these nodes give signs of life, and node 0 looks now and then."""
        for _ in range(int(seconds)):
            self.now += 1.0
            for comer in alive:
                before = read_sign(self.store.get(f"sign/{comer.number}"))
                self.signs(comer, replace(before, beat=before.beat + 1))
            self.roster.poll()

    def roll(self) -> Roll:
        return read_roll(self.store.get(ROLL))


@pytest.fixture
def room() -> Room:
    return Room()


def test_what_is_written_is_read() -> None:
    ticket = Ticket("/runs/a", "gang", "seed: 0\n", attempt=3)
    roll = Roll("/runs/a", "now", ticket, {"1": 2}, dropped=[4], turned_away={"5": "why"})
    sign = Sign(7, 3, {"cause": "why"}, bad=True, left="was warned")
    assert read_roll(written(roll).encode()) == roll
    assert read_sign(written(sign).encode()) == sign
    assert read_comer(written(ZERO).encode()) == ZERO


def test_those_that_are_here_in_the_order_of_their_ranks(room: Room) -> None:
    two, one = room.comes(2, "c"), room.comes(1)
    assert room.roster.here == [ZERO, one, two]
    assert room.told == ["node 2 (c) is here", "node 1 (b) is here"]
    room.now = 3.0
    assert room.roster.waited([ZERO, one]) == 3.0
    assert room.roster.waited([ZERO, one, two]) is None


def test_a_call_names_places(room: Room) -> None:
    two = room.comes(2)
    ticket = Ticket("/runs/a", "gang", "", attempt=1)
    room.roster.say(folder="/runs/a", failed=True)
    room.roster.call(ticket, [ZERO, two])
    roll = room.roll()
    assert (roll.folder, roll.ticket, roll.failed) == ("/runs/a", ticket, False)
    assert roll.places == {"0": 0, str(two.number): 1}


def test_one_that_gives_no_sign_for_long_is_lost(room: Room) -> None:
    one, two = room.comes(1), room.comes(2)
    room.passes(LOST_S, two)
    assert room.roster.here == [ZERO, one, two]
    room.passes(1, two)
    assert room.roster.here == [ZERO, two]
    assert room.roster.gone == {one.number: f"has given no sign of life for {LOST_S:g} s"}
    assert room.roll().dropped == [one.number]


def test_a_look_that_comes_late_finds_those_alive_that_are(room: Room) -> None:
    """Node 0 may be busy for longer, with the checksums of a checkpoint, say."""
    one = room.comes(1)
    room.now += 10 * LOST_S
    room.signs(one, Sign(beat=99))
    room.roster.poll()
    assert room.roster.here == [ZERO, one]


def test_one_that_takes_its_leave(room: Room) -> None:
    one = room.comes(1)
    room.signs(one, Sign(2, attempt=3, word=None, left="was warned and left"))
    room.roster.poll()
    assert room.roster.here == [ZERO]
    assert room.roster.gone == {one.number: "was warned and left"}
    end = room.roster.end_of(one, 3)
    assert end is not None
    assert end.left == "was warned and left"
    assert room.roster.end_of(one, 2) is None


def test_one_that_was_started_anew_takes_its_old_place(room: Room) -> None:
    old = room.comes(1)
    new = room.comes(1)
    assert room.roster.here == [ZERO, old]
    room.passes(DOUBT_S, new)
    assert room.roster.here == [ZERO, new]
    assert room.roster.gone == {old.number: "was started anew"}


def test_two_of_one_rank_are_one_too_many(room: Room) -> None:
    first = room.comes(1)
    second = room.comes(1, "c")
    room.passes(DOUBT_S, first, second)
    assert room.roster.here == [ZERO, first]
    (why,) = room.roll().turned_away.values()
    assert why.startswith("has cluster.node_rank=1, as b has, which is here")
    assert room.told[-1] == f"node 1 (c) {why}"
    assert not room.roster.gone


@pytest.mark.parametrize(
    ("node_rank", "ranks", "words"),
    [
        (1, 8, "has 8 ranks on cpu, and node 0 has 2 on cpu"),
        (4, 2, "has cluster.node_rank=4, and this run's nodes are 0, the one"),
        (0, 2, "has cluster.node_rank=0, and this run's nodes are 0, the one"),
        (3, 2, "was lost twice"),
    ],
)
def test_one_that_does_not_fit_is_turned_away(
    room: Room, node_rank: int, ranks: int, words: str
) -> None:
    room.roster.bar(3, "was lost twice")
    comer = room.comes(node_rank, ranks=ranks)
    assert room.roster.here == [ZERO]
    assert room.roll().turned_away[str(comer.number)].startswith(words)


def test_one_that_is_here_is_turned_away_with_its_rank(room: Room) -> None:
    one, two = room.comes(1), room.comes(2)
    room.roster.bar(1, "was lost twice")
    assert room.roster.here == [ZERO, two]
    assert room.roll().turned_away == {str(one.number): "was lost twice"}
