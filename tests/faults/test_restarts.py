"""A gang that fails is started afresh, as often as it may be, and the record tells of it."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.words import ENDLESS, FAULTY, TORCHRUN
from tests.launch.test_one_folder import free_port, node
from tests.processes import family
from tests.runs import Run, find_runs, run_train

WIDGET = "ValueError: the widget is upside down"


def once(folder: Path, fault: str = "raise") -> tuple[str, ...]:
    """A fault in the first attempt alone."""
    return (f"+model.fault={fault}", f"+model.once={folder / 'happened'}")


def ended_well_at_the_second_attempt(run: Run) -> None:
    assert run.status["status"] == "completed"
    assert run.status["attempts"] == 2
    assert run.status["error"] is None
    assert run.column("step")[-1] == 4
    assert run.summary["steps"] == 4
    assert not list(run.folder.glob("logs/*.failure.json"))
    assert not list(run.folder.glob("logs/.*"))


def test_a_rank_that_fails_once(tmp_path: Path) -> None:
    words = (*FAULTY, *once(tmp_path), "cluster.max_restarts=2")
    outcome = run_train(tmp_path, *words).completed()
    run = outcome.run
    assert f"rank 1 failed after 2 steps: {WIDGET}\nattempt 2 of 3 " in outcome.stderr
    ended_well_at_the_second_attempt(run)
    (first,) = run.status["history"]
    assert first["ended"] > run.status["started"]
    assert {**first, "ended": None} == {
        "attempt": 1,
        "ended": None,
        "status": "failed",
        "cause": WIDGET,
        "steps": 2,
    }
    assert "in commit" in (run.folder / "logs" / "attempt-1.rank-1.traceback.txt").read_text()
    assert run.status["attempt_started"] > first["ended"]


def test_no_more_often_than_allowed(tmp_path: Path) -> None:
    outcome = run_train(tmp_path, *FAULTY, "+model.fault=raise", "cluster.max_restarts=1")
    assert outcome.code == 1
    status = outcome.run.status
    assert status["status"] == "failed"
    assert status["attempts"] == 2
    assert status["error"]["cause"] == WIDGET
    assert [past["attempt"] for past in status["history"]] == [1]
    assert "attempt 2 of 2 " in outcome.stderr
    assert "attempt 3" not in outcome.stderr


def test_a_killed_rank(tmp_path: Path) -> None:
    with family(tmp_path, *ENDLESS, "cluster.max_restarts=1") as command:
        command.until(lambda: command.training(2))
        first = {rank.pid for rank in command.ranks().values()}
        command.ranks()[1].kill()
        command.until(lambda: len({r.pid for r in command.ranks().values()} - first) == 2)
        # The second attempt takes steps, whether from the start or from a checkpoint.
        log = find_runs(tmp_path)[0].folder / "metrics.jsonl"
        size = log.stat().st_size
        command.until(lambda: log.stat().st_size > size)
        os.killpg(command.first.pid, signal.SIGTERM)
        command.gone_after()
        outcome = command.outcome()
    # A warning is no failure: its attempt is the last.
    assert outcome.code == 75
    assert outcome.run.status["attempts"] == 2
    assert "killed by SIGKILL" in outcome.run.status["history"][0]["cause"]


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (("optimizer.lr=1e38", "steps=50", "precision=fp32"), "diverged", 1),
        (("+model.fault=refuse",), "refused", 2),
    ],
)
def test_what_would_happen_again_is_not_tried_again(
    tmp_path: Path, words: tuple[str, ...], kind: str, code: int
) -> None:
    outcome = run_train(tmp_path, *FAULTY, *words, "cluster.max_restarts=3")
    assert outcome.code == code
    assert outcome.run.status["attempts"] == 1
    assert outcome.run.status["error"]["kind"] == kind


def test_an_interrupt_is_the_end(tmp_path: Path) -> None:
    with family(tmp_path, *ENDLESS, "cluster.max_restarts=3") as command:
        command.until(lambda: command.training(2))
        os.killpg(command.first.pid, signal.SIGINT)
        command.gone_after()
        outcome = command.outcome()
    assert outcome.code == 130
    assert outcome.run.status["attempts"] == 1


def test_over_two_nodes(tmp_path: Path) -> None:
    """Node 0 decides; the other waits for its word and takes part again."""
    endpoint = f"127.0.0.1:{free_port()}"
    words = (*FAULTY, *once(tmp_path), "cluster.nproc_per_node=1", "cluster.max_restarts=1")
    with ExitStack() as stack:
        commands = [stack.enter_context(node(tmp_path, rank, endpoint, *words)) for rank in (1, 0)]
        follower, leader = (command.outcome(90).completed() for command in commands)
    assert f"rank 1 failed after 2 steps: {WIDGET}\nattempt 2 of 2 " in leader.stderr
    assert WIDGET not in follower.stderr
    ended_well_at_the_second_attempt(leader.run)


@pytest.mark.parametrize("warned", [0, 1])
def test_a_warning_to_one_of_two_nodes(tmp_path: Path, warned: int) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    words = (*ENDLESS, "cluster.nproc_per_node=1", "cluster.max_restarts=1")
    with ExitStack() as stack:
        commands = [stack.enter_context(node(tmp_path, rank, endpoint, *words)) for rank in (0, 1)]
        commands[0].until(lambda: commands[0].training(2))
        commands[warned].first.terminate()
        outcomes = [command.outcome(20) for command in commands]
        for command in commands:
            command.gone_after()
    assert [outcome.code for outcome in outcomes] == [75, 75]
    status = outcomes[0].run.status
    assert (status["status"], status["attempts"]) == ("preempted", 1)
    assert status["error"]["cause"].endswith(f"at step {status['steps']}, which is saved")


def test_a_node_that_ends_at_once(tmp_path: Path) -> None:
    """Its second warning explains what the other node's ranks say of their peers."""
    endpoint = f"127.0.0.1:{free_port()}"
    words = (*ENDLESS, "+model.fault=stall", "cluster.nproc_per_node=1", "cluster.max_restarts=1")
    with ExitStack() as stack:
        commands = [stack.enter_context(node(tmp_path, rank, endpoint, *words)) for rank in (0, 1)]
        commands[0].until(lambda: commands[0].training(2))
        second = commands[1].first
        while second.poll() is None:
            second.send_signal(signal.SIGTERM)
            commands[1].wait_a_little()
        outcomes = [command.outcome(20) for command in commands]
    assert [outcome.code for outcome in outcomes] == [75, 75]
    error = outcomes[0].run.status["error"]
    assert error["cause"].startswith("node 1: stopped by a second signal, SIGTERM after SIGTERM")


def test_torchrun_starts_its_gang_again(tmp_path: Path) -> None:
    """The new gang goes on in the folder of the first, and does not meet its ghosts."""
    launcher = (*TORCHRUN[:3], "--max-restarts=1", *TORCHRUN[3:])
    with family(tmp_path, *FAULTY, *once(tmp_path), launcher=launcher) as command:
        outcome = command.outcome(90).completed()
        command.gone_after(20)
    ended_well_at_the_second_attempt(outcome.run)
    assert [past["cause"] for past in outcome.run.status["history"]] == [WIDGET]
