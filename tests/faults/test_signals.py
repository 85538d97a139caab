"""Signals to the controller and to ranks: everything ends, soon, and the status says why."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.words import ENDLESS, STALLED, TORCHRUN, WORKERS
from tests.processes import Family, family


def stalled(command: Family) -> None:
    """Wait until rank 0 sits in a collective."""
    command.until(lambda: command.training(2))
    command.until(lambda: command.ranks()[0].cpu_percent(0.3) < 10.0)


def test_a_killed_rank(tmp_path: Path) -> None:
    with family(tmp_path, *ENDLESS) as command:
        command.until(lambda: command.training(2))
        command.ranks()[1].kill()
        command.gone_after()
        outcome = command.outcome()
    assert outcome.code == 1
    error = outcome.run.status["error"]
    assert outcome.run.status["status"] == "failed"
    assert (error["rank"], error["kind"]) == (1, "killed")
    assert "killed by SIGKILL" in error["cause"]
    assert outcome.stderr.strip().startswith("rank 1 failed: killed by SIGKILL")
    assert outcome.run.status["steps"] >= 2


def test_a_rank_that_stands_still(tmp_path: Path) -> None:
    """A collective waits for it no longer than it may, and the one waited for is named."""
    with family(tmp_path, *STALLED, "cluster.timeout_s=3") as command:
        outcome = command.outcome(120)
        command.gone_after(60)
    assert outcome.code == 1
    error = outcome.run.status["error"]
    assert (error["kind"], error["rank"], error["step"]) == ("collective", 1, 2)
    first, guilty, waiting = error["cause"].splitlines()
    assert first == "a collective waited longer than cluster.timeout_s=3 s: rank 1 did not come"
    assert guilty.startswith("  rank 1: in forward-backward of step 3 for ")
    assert "at commit (probes/probe_faults.py:" in guilty
    assert waiting.startswith("  rank 0: waited in forward-backward of step 3 for ")
    assert f"rank 1 failed after 2 steps: {first}" in outcome.stderr
    assert error["traceback_file"] == "logs/rank-1.stacks.txt"


def test_an_interrupt_at_the_terminal(tmp_path: Path) -> None:
    with family(tmp_path, *WORKERS) as command:
        command.until(lambda: command.training(2))
        # Controller, fork server, two ranks, four data workers, W&B, and what watches resources.
        assert len(command.members()) >= 9
        os.killpg(command.first.pid, signal.SIGINT)
        command.gone_after()
        outcome = command.outcome()
    assert outcome.code == 130
    assert outcome.run.status["status"] == "failed"
    assert outcome.run.status["error"]["cause"] == "stopped by SIGINT"
    folder = outcome.run.folder
    said = (
        f"all ranks have ended; the run's folder: {folder}\n"
        f"from its last checkpoint: python -m train resume={folder}\nstopped by SIGINT"
    )
    assert outcome.stderr.strip() == said


def test_an_interrupt_at_the_start(tmp_path: Path) -> None:
    with family(tmp_path, *ENDLESS) as command:
        command.until(command.run)
        os.killpg(command.first.pid, signal.SIGINT)
        command.gone_after()
        outcome = command.outcome()
    assert outcome.code == 130
    assert outcome.run.status["error"]["cause"] == "stopped by SIGINT"
    assert "Traceback" not in outcome.stderr


def claimed(command: Family) -> bool:
    """Whether the run has its folder, and its status has been written."""
    run = command.run()
    return run is not None and bool(run.status)


@pytest.mark.parametrize("when", ["collective", "data", "start"])
def test_no_process_outlives_a_killed_controller(tmp_path: Path, when: str) -> None:
    with family(tmp_path, *(WORKERS if when == "data" else STALLED)) as command:
        if when == "collective":
            stalled(command)
        else:
            command.until(lambda: claimed(command) if when == "start" else command.training(2))
        command.first.kill()
        # At the start the fork server is at its imports, and sees the end once they are done.
        command.gone_after(30 if when == "start" else 10)
        assert command.outcome().run.status["status"] == "running"


def test_under_torchrun_a_rank_tells_of_a_killed_one(tmp_path: Path) -> None:
    with family(tmp_path, *STALLED, "+model.on_rank=0", launcher=TORCHRUN) as command:
        command.until(lambda: command.training(2))
        command.ranks()[1].kill()
        command.gone_after()
        outcome = command.outcome()
    assert outcome.code != 0
    assert outcome.run.status["status"] == "failed"
    assert outcome.run.status["error"]["rank"] == 1
    assert "was killed" in outcome.run.status["error"]["cause"]


def test_under_torchrun_a_rank_tells_of_a_killed_rank_0(tmp_path: Path) -> None:
    with family(tmp_path, *ENDLESS, launcher=TORCHRUN) as command:
        command.until(lambda: command.training(2))
        command.ranks()[0].kill()
        command.gone_after()
        outcome = command.outcome()
    assert outcome.run.status["status"] == "failed"
    assert outcome.run.status["error"]["rank"] == 0


def test_under_torchrun_a_rank_in_a_collective_hears_an_interrupt(tmp_path: Path) -> None:
    with family(tmp_path, *STALLED, launcher=TORCHRUN) as command:
        stalled(command)
        os.kill(command.first.pid, signal.SIGINT)
        command.gone_after()
        outcome = command.outcome()
    assert outcome.code != 0
    assert outcome.run.status["status"] == "failed"
    assert outcome.run.status["error"]["cause"] == "stopped by SIGINT"
