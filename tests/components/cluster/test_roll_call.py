"""Who has come, and that ranks begin together however long each prepares."""

from __future__ import annotations

import threading
import time

import pytest
import torch.distributed as dist

from components.cluster.joined import Joined
from components.cluster.roll_call import Absent, here, in_words, prepare_together, roll_call


def gang(rank: int, world_size: int) -> Joined:
    """A rank's place, at a:1."""
    return Joined("train", rank, world_size, rank, world_size, 1, "a", 1, hosted=True)


@pytest.fixture
def store() -> dist.Store:
    return dist.HashStore()


def test_what_those_said_who_came(store: dist.Store) -> None:
    here(store, 0)
    here(store, 2, ranks=4)
    assert roll_call(store, 3, timeout_s=0.0) == {0: {}, 2: {"ranks": 4}}
    here(store, 1)
    assert {*roll_call(store, 3, timeout_s=60.0)} == {0, 1, 2}


def test_a_wait_that_has_become_pointless_ends(store: dist.Store) -> None:
    here(store, 0)
    assert roll_call(store, 2, 60.0, lambda: store.check(["here/0"])) == {0: {}}


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([3], "rank 3"), ([0, 1], "ranks 0-1"), ([0, 1, 2, 4, 6, 7], "ranks 0-2, 4, 6-7")],
)
def test_in_short(ranks: list[int], text: str) -> None:
    assert in_words(ranks) == text


def test_a_rank_that_prepares_longer_than_others_wait_for_its_coming(store: dist.Store) -> None:
    done = []

    def slow() -> None:
        time.sleep(1.0)
        done.append("slow")

    other = threading.Thread(target=prepare_together, args=(store, gang(1, 2), slow, 0.1))
    here(store, 1)  # it has come before the first asks
    other.start()
    prepare_together(store, gang(0, 2), lambda: None, 0.1)
    assert done == ["slow"]
    other.join(20)


def test_who_does_not_come_is_named(store: dist.Store) -> None:
    here(store, 2)
    with pytest.raises(
        Absent, match=r"^ranks 1, 3 did not come to a:1 within 0.1 s .*; ranks 0, 2 did$"
    ):
        prepare_together(store, gang(0, 4), lambda: None, 0.1)


def test_a_failure_to_prepare_is_every_ranks(store: dist.Store) -> None:
    def failing() -> None:
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        prepare_together(store, gang(1, 2), failing, 60.0)
    with pytest.raises(Absent, match="rank 1 cannot begin: RuntimeError: the source is gone"):
        prepare_together(store, gang(0, 2), lambda: None, 60.0)
