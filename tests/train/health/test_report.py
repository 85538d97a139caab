"""Who kept the others waiting, by cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.cluster.cluster import Cluster
from train.failure import Failure
from train.health.report import explained, late
from train.health.sight import Sight, with_words

CLUSTER = Cluster(nproc_per_node=2, device="cpu", timeout_s=20.0, stall_s=60.0)


def sight(rank: int, **told: object) -> Sight:
    """A rank in the forward and backward of step 6, for 20 s."""
    one = Sight(rank=rank, step=5, phase="forward-backward", age_s=20.0, pid=1000 + rank)
    return replace(one, **told)  # type: ignore[arg-type]


def named(*sights: Sight) -> list[int]:
    return [one.rank for one in late(sights)]


WAITED = {"timed_out": True, "spoke": True}
CUT_OFF = {"spoke": True, "waits": True}
"""It waited too, and lost its peer when the first to time out was gone."""


def test_the_one_that_did_not_wait_too_long() -> None:
    assert named(sight(0, **WAITED), sight(1)) == [1]


def test_of_those_that_were_cut_off_the_silent_one() -> None:
    assert named(sight(0, **WAITED), sight(1, **CUT_OFF), sight(2), sight(3, **CUT_OFF)) == [2]


def test_one_that_woke_up_too_late_by_its_place() -> None:
    late_one = sight(2, spoke=True, phase="data")
    assert named(sight(0, **WAITED), sight(1, **CUT_OFF), late_one) == [2]


def test_one_that_woke_up_too_late_by_its_stack() -> None:
    late_one = sight(2, spoke=True, waits=False)
    assert named(sight(0, **WAITED), sight(1, **CUT_OFF), late_one) == [2]


def test_a_stopped_one_comes_first() -> None:
    assert named(sight(0), sight(1, process="stopped"), sight(2, phase="data")) == [1]


def test_one_that_lies_behind() -> None:
    # Rank 0 is in the evaluation after step 5, and the others at the next step's data.
    assert named(sight(0, phase="evaluation"), sight(1, phase="data"), sight(2, phase="data")) == [
        0
    ]
    assert named(sight(0, step=4, phase="optimizer"), sight(1, phase="evaluation")) == [0]


def test_several_of_which_none_can_be_told_apart() -> None:
    assert named(sight(0, waits=True), sight(1), sight(2)) == [1, 2]


def test_nobody_where_all_look_alike() -> None:
    assert named(sight(0), sight(1)) == []
    assert named(sight(0, **WAITED), sight(1, **WAITED)) == []


def test_one_rank_alone_is_its_own_cause() -> None:
    assert named(sight(0, waits=True)) == [0]


def timed_out(rank: int) -> Failure:
    words = "RuntimeError: [gloo/unbound_buffer.cc:78] Timed out waiting 20000ms for recv"
    return Failure(rank, "collective", words, 0.0, 5, f"logs/rank-{rank}.traceback.txt")


def test_the_report_of_a_collective() -> None:
    first = timed_out(0)
    stopped = sight(1, process="stopped", age_s=31.0)
    told = explained(first, with_words([sight(0), stopped], [first]), CLUSTER)
    assert (told.rank, told.kind, told.step, told.traceback_file) == (1, "collective", 5, None)
    assert told.cause.splitlines() == [
        "a collective waited longer than cluster.timeout_s=20 s: rank 1 did not come",
        "  rank 1: in forward-backward of step 6 for 31 s, stopped by SIGSTOP or a debugger "
        "(process 1001), and so without stacks",
        "  rank 0: waited in forward-backward of step 6 for 20 s",
    ]


def test_ranks_of_which_the_same_is_said_share_a_line() -> None:
    saving = sight(3, phase="save", frame="write (me/disk.py:4)", process="in the kernel's hands")
    waiting = [sight(rank, phase="data", waits=True, age_s=50.0 + rank) for rank in range(3)]
    stalled = Failure(None, "stalled", "the ranks do not come on", 0.0)
    told = explained(stalled, [*waiting, saving], CLUSTER)
    assert (told.rank, told.kind, told.traceback_file) == (3, "stalled", "logs/rank-3.stacks.txt")
    assert told.cause.splitlines() == [
        "no rank has come on for cluster.stall_s=60 s: rank 3 did not come",
        "  rank 3: in save after step 5 for 20 s, at write (me/disk.py:4), in the kernel's hands",
        "  ranks 0-2: waited in data of step 6 for 52 s",
    ]


def test_where_nobody_can_be_named_the_run_itself_has_failed() -> None:
    first = timed_out(0)
    told = explained(first, with_words([sight(0), sight(1)], [first, timed_out(1)]), CLUSTER)
    assert told.rank is None
    assert "which rank kept the others waiting cannot be told" in told.cause


@pytest.mark.parametrize("kind", ["error", "out_of_memory", "killed", "preempted"])
def test_a_failure_that_explains_itself_is_left_alone(kind: str) -> None:
    first = Failure(0, kind, "RuntimeError: no", 0.0)  # type: ignore[arg-type]
    assert explained(first, [sight(0), sight(1)], CLUSTER) is first


def test_without_places_nothing_is_known() -> None:
    first = timed_out(0)
    assert explained(first, [], CLUSTER) is first


def test_a_peer_that_is_lost_is_no_time_out() -> None:
    lost = Failure(1, "collective", "RuntimeError: Connection closed by peer", 0.0)
    waited, cut_off, silent = with_words([sight(0), sight(1), sight(2)], [timed_out(0), lost])
    assert (waited.timed_out, waited.spoke) == (True, True)
    assert (cut_off.timed_out, cut_off.spoke) == (False, True)
    assert (silent.timed_out, silent.spoke) == (False, False)
