"""A scheduler's warning: all ranks end together, or at once, and the run is a preempted one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.test_signals import stalled
from tests.faults.words import ENDLESS, STALLED, TORCHRUN, WORKERS
from tests.processes import Family, family
from tests.runs import Outcome, find_runs

HEEDING = "saving at the end of this step, then ending; a second signal ends at once"


def preempted(outcome: Outcome, name: str) -> None:
    """The run ended as one that was warned and saved."""
    run = outcome.run
    assert outcome.code == 75, outcome.stderr
    assert run.status["status"] == "preempted"
    step = run.status["steps"]
    assert step >= 2
    cause = f"stopped by {name} at step {step}, which is saved"
    assert run.status["error"] == {"kind": "preempted", "cause": cause, "step": step}
    assert "Traceback" not in outcome.stderr + run.log(0) + run.log(1)
    # All ranks ended after the same step, and nothing came after it.
    assert run.column("step")[-1] == step


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_warning_to_the_command(tmp_path: Path, number: signal.Signals) -> None:
    with family(tmp_path, *ENDLESS) as command:
        command.until(lambda: command.training(2))
        command.first.send_signal(number)
        command.gone_after(20)
        outcome = command.outcome()
    preempted(outcome, number.name)
    assert outcome.stderr.startswith(f"{number.name}: {HEEDING}\n")
    assert f"the run was preempted after {outcome.run.status['steps']} steps" in outcome.stderr


def test_a_scheduler_warns_every_process(tmp_path: Path) -> None:
    """Data workers and the tracker's service included; and a controller's word follows its own."""
    with family(tmp_path, *WORKERS) as command:
        command.until(lambda: command.training(2))
        os.killpg(command.first.pid, signal.SIGTERM)
        command.gone_after(20)
        outcome = command.outcome()
    preempted(outcome, "SIGTERM")


def test_a_warning_to_one_rank_ends_all(tmp_path: Path) -> None:
    with family(tmp_path, *ENDLESS) as command:
        command.until(lambda: command.training(2))
        command.ranks()[1].terminate()
        command.gone_after(20)
        outcome = command.outcome()
    preempted(outcome, "SIGTERM")


def test_ranks_that_cannot_reach_the_end_of_a_step(tmp_path: Path) -> None:
    with family(tmp_path, *STALLED) as command:
        stalled(command)
        os.killpg(command.first.pid, signal.SIGTERM)
        command.gone_after(20)
        outcome = command.outcome()
    assert outcome.code == 75
    status = outcome.run.status
    assert status["status"] == "preempted"
    assert status["error"]["kind"] == "preempted"
    assert status["error"]["step"] == 2
    assert status["error"]["cause"] == (
        "stopped by SIGTERM: the ranks did not reach the end of a step within "
        "cluster.preempt_grace_s=2 s, and nothing is saved beyond the last checkpoint"
    )


def test_a_second_warning_ends_at_once(tmp_path: Path) -> None:
    with family(tmp_path, *STALLED, "cluster.preempt_grace_s=600") as command:
        stalled(command)
        command.first.send_signal(signal.SIGUSR1)
        told = command.first.stderr.readline()
        second(command, signal.SIGTERM)
        outcome = command.outcome()
    assert told == f"SIGUSR1: {HEEDING}\n"
    assert outcome.code == 75
    assert outcome.run.status["status"] == "preempted"
    assert outcome.run.status["error"]["cause"] == (
        "stopped by a second signal, SIGTERM after SIGUSR1: "
        "nothing is saved beyond the last checkpoint"
    )


def second(command: Family, number: signal.Signals) -> None:
    """Warn again and again, until one is far enough from the first to be a second warning."""

    def ended() -> bool:
        command.first.send_signal(number)
        return command.first.poll() is not None

    while not ended():
        command.wait_a_little()
    command.gone_after(20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_at_the_start(tmp_path: Path, number: signal.Signals) -> None:
    """Whether ranks run by then or not, a folder that has been taken tells of it."""
    with family(tmp_path, *ENDLESS) as command:
        command.until(command.run)
        os.killpg(command.first.pid, number)
        command.gone_after(20)
        outcome = command.outcome()
    code, status = (75, "preempted") if number == signal.SIGTERM else (130, "failed")
    assert outcome.code == code
    assert outcome.run.status["status"] == status
    assert number.name in outcome.run.status["error"]["cause"]
    assert "Traceback" not in outcome.stderr


def test_under_torchrun(tmp_path: Path) -> None:
    """torchrun passes the signal on to its ranks, who agree among themselves."""
    with family(tmp_path, *ENDLESS, launcher=TORCHRUN) as command:
        command.until(lambda: command.training(2))
        os.killpg(command.first.pid, signal.SIGTERM)
        command.gone_after(20)
        outcome = command.outcome()
    assert outcome.run.status["status"] == "preempted"
    step = outcome.run.status["steps"]
    cause = f"stopped by SIGTERM at step {step}, which is saved"
    assert outcome.run.status["error"] == {"kind": "preempted", "cause": cause, "step": step}


def test_under_torchrun_ranks_that_cannot_reach_the_end_of_a_step(tmp_path: Path) -> None:
    with family(tmp_path, *STALLED, launcher=TORCHRUN) as command:
        stalled(command)
        os.kill(command.first.pid, signal.SIGTERM)
        command.gone_after(20)
        outcome = command.outcome()
    assert outcome.run.status["status"] == "preempted"
    assert "cluster.preempt_grace_s=2 s" in outcome.run.status["error"]["cause"]


def test_a_preempted_sweep_starts_no_other_job(tmp_path: Path) -> None:
    words = (*ENDLESS, "steps=2,1000000,3,4", "parallel=single")
    with family(tmp_path, "-m", *words) as command:
        command.until(lambda: [run.column("step") for run in find_runs(tmp_path)][1:] > [[]])
        os.killpg(command.first.pid, signal.SIGTERM)
        command.gone_after(20)
        outcome = command.outcome()
    assert outcome.code == 75
    assert [run.status["status"] for run in outcome.runs] == ["completed", "preempted"]
    assert "1 of 4 jobs completed" in outcome.stderr
    assert "preempted: " in outcome.stderr
    assert "not started: 2 jobs" in outcome.stderr
