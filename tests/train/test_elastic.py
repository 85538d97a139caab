"""What node 0 decides at the end of an attempt, with ranks and other nodes played by the test."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
import torch.distributed as dist

from components.cluster.handshake import Ticket
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.roll import (
    COMERS,
    HEARD,
    PREFIX,
    ROLL,
    Comer,
    Roll,
    Sign,
    read_roll,
    read_sign,
    written,
)
from tests.train.test_elastic_sizes import plan
from train import elastic, failure, status
from train.elastic import ElasticAttempts
from train.elastic_gang import NodeGang
from train.failure import Failure
from train.node_gang import Place
from train.run_plan import Plan

SAVED = Failure(0, "preempted", "stopped by SIGTERM at step 5, which is saved", 1.0, step=5)
CUT = Failure(0, "collective", "Connection closed by peer", 1.0, step=5)

Act = Callable[["Stage", NodeGang], Failure | None]


@dataclass
class Stage:
    """The store, the nodes in it, and what happens in each attempt.

    Attributes:
        acts: of the attempts, in their order: what comes to pass, and how node 0's ranks end.
        gangs: node ranks of each attempt so far.
    """

    folder: Path
    acts: list[Act] = field(default_factory=list)
    gangs: list[list[int]] = field(default_factory=list)
    notice: Notice = field(default_factory=Notice)
    store: dist.Store = field(default_factory=dist.HashStore)

    def __post_init__(self) -> None:
        self.entries = dist.PrefixStore(PREFIX, self.store)

    def comes(self, node_rank: int) -> Comer:
        number = self.entries.add(COMERS, 1)
        comer = Comer(number, node_rank, "b", 2, "cpu")
        self.entries.set(f"comer/{number}", written(comer))
        self.signs(comer, Sign(beat=1))
        self.entries.add(HEARD, 1)  # that the run is over, in its time
        return comer

    def signs(self, comer: Comer, sign: Sign) -> None:
        self.entries.set(f"sign/{comer.number}", written(sign))

    def ends(self, gang: NodeGang, word: Failure, left: str | None = None) -> None:
        """The other nodes' ranks end so; `left` tells why the nodes go with them."""
        for comer in gang.members[1:]:
            sign = read_sign(self.entries.get(f"sign/{comer.number}"))
            bad = not word.agreed
            end = Sign(sign.beat + 1, gang.attempt, asdict(word), bad=bad, left=left)
            self.signs(comer, end)

    def roll(self) -> Roll:
        return read_roll(self.entries.get(ROLL))

    def run_gang(
        self,
        plan: Plan,
        ticket: Ticket,
        place: Place,
        gang: NodeGang,
        notice: Notice,
        regroup: Callable[[], bool],
    ) -> Failure | None:
        self.gangs.append([comer.node_rank for comer in gang.members])
        return self.acts[len(self.gangs) - 1](self, gang)

    def run(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> Failure | None:
        """The run, from the first gang to its end."""
        monkeypatch.setattr(elastic, "run_gang", self.run_gang)
        monkeypatch.setattr(elastic, "differing", lambda own, its: None)
        monkeypatch.setattr(elastic, "meet", lambda cluster: Place(self.store, "h", 1, None))
        status.claim(self.folder)
        quick = ("cluster.settle_s=0", "cluster.start_timeout_s=0.5", "global_batch_size=48")
        whole = plan(self.folder, *quick, *words)
        attempts = ElasticAttempts(whole, self.folder, 1, self.notice)
        first = attempts.run()
        status.finish(self.folder, "completed", attempt=attempts.number)
        return first


def complete(stage: Stage, gang: NodeGang) -> None:
    (stage.folder / "summary.json").write_text("{}")


def leaves_after_a_save(stage: Stage, gang: NodeGang) -> Failure:
    stage.ends(gang, SAVED, left="was warned and left")
    return SAVED


def stopped(stage: Stage, gang: NodeGang) -> Failure:
    stage.ends(gang, CUT, left="was stopped and left")
    return CUT


def started_anew(stage: Stage, gang: NodeGang) -> Failure:
    """The other node is lost, and comes again at once."""
    gang.roster.drop(gang.members[1], "is gone without a word")
    stage.comes(1)
    return CUT


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_warned_node_leaves_and_the_rest_go_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.comes(1)
    stage.acts = [leaves_after_a_save, complete]
    assert stage.run(monkeypatch, "cluster.nnodes=1:2") is None
    assert stage.gangs == [[0, 1], [0]]
    (past,) = status.read(stage.folder)["history"]
    assert (past["status"], past["steps"]) == ("preempted", 5)
    assert past["cause"] == "node 1 (b) was warned and left"
    roll = stage.roll()
    assert (roll.over, roll.word, roll.exit_code) == (True, None, 0)


def test_too_few_are_left(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.comes(1)
    stage.acts = [stopped]
    first = stage.run(monkeypatch, "cluster.nnodes=2:3")
    assert first is not None
    assert (first.kind, first.step) == ("preempted", 5)
    assert first.cause.startswith(
        "node 1 (b) was stopped and left, and then cluster.nnodes=2:3 needs 2 nodes, and within "
        "cluster.start_timeout_s=0.5 s there was no more than node 0 ("
    )
    roll = stage.roll()
    assert (roll.over, roll.exit_code) == (True, PREEMPTED)
    assert roll.word == asdict(first)


def test_a_node_that_comes_is_waited_for_and_taken_in(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def makes_way(stage: Stage, gang: NodeGang) -> Failure:
        assert not gang.regroup()
        stage.comes(1)
        assert not gang.lost()  # looks
        assert gang.regroup()
        return SAVED

    stage.acts = [makes_way, complete]
    assert stage.run(monkeypatch, "cluster.nnodes=1:2") is None
    assert stage.gangs == [[0], [0, 1]]
    (past,) = status.read(stage.folder)["history"]
    assert (past["status"], past["cause"]) == ("preempted", "node 1 (b) came")


def test_a_node_that_is_lost_twice_at_one_step_is_not_taken_in_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.comes(1)
    stage.acts = [started_anew, started_anew, complete]
    assert stage.run(monkeypatch, "cluster.nnodes=1:2") is None
    assert stage.gangs == [[0, 1], [0, 1], [0]]
    (why,) = stage.roll().turned_away.values()
    assert why == "was lost twice by step 5, and is not taken in again"


@pytest.mark.parametrize(
    "kind",
    ["diverged", "refused", "nondeterministic"],
)
def test_what_would_happen_again_on_any_nodes_is_final(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, kind: failure.Kind
) -> None:
    bad = Failure(0, kind, "why", 1.0, step=5)

    def act(stage: Stage, gang: NodeGang) -> Failure:
        stopped(stage, gang)
        return bad

    stage.comes(1)
    stage.acts = [act]
    assert stage.run(monkeypatch, "cluster.nnodes=1:2") == bad


def test_a_warning_to_node_0_ends_the_run_on_all_nodes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned(stage: Stage, gang: NodeGang) -> Failure:
        stage.notice.warn(signal.SIGTERM)
        stage.ends(gang, SAVED)
        return SAVED

    stage.comes(1)
    stage.acts = [warned]
    first = stage.run(monkeypatch, "cluster.nnodes=1:2")
    assert first is not None
    assert (first.kind, first.cause) == (SAVED.kind, SAVED.cause)
    assert stage.roll().exit_code == PREEMPTED


def test_a_warning_to_a_rank_alone_ends_the_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node has been warned, so there is none to go on without."""
    stage.acts = [lambda stage, gang: SAVED]
    assert stage.run(monkeypatch, "cluster.nnodes=1:2") == SAVED


def test_ranks_that_fail_are_tried_again_as_they_may(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(step: int) -> Act:
        return lambda stage, gang: Failure(0, "error", "why", time.time(), step=step)

    stage.acts = [fails(5), fails(6), fails(7)]
    first = stage.run(monkeypatch, "cluster.nnodes=1:2", "cluster.max_restarts=2")
    assert first is not None
    assert (first.kind, first.step, first.cause) == ("error", 7, "why")
    assert [past["cause"] for past in status.read(stage.folder)["history"]] == ["why", "why"]
