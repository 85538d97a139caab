"""A cable between two hosts that are training is cut."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster.hosts import Host
from tests.cluster.nodes import typed_on
from tests.faults.words import FAULTY
from tests.processes import Family
from tests.runs import Outcome, run_started

pytestmark = pytest.mark.netns

TRUSTED = "allowed_targets=[probe_faults]"
"""A run's own words may not name modules of just anybody."""

STEPS = ("steps=60", "checkpoint.every_steps=5")
SLOW = (*FAULTY, *STEPS, "+model.pace_s=0.05", "cluster.timeout_s=10")

BOUND_S = 10.0 + 30.0
"""The collectives' time-out, then 3 s for ranks and 12 s for words; the rest for a busy machine."""


def last_step(command: Family) -> int:
    run = command.run()
    return 0 if run is None or not run.metrics else int(run.metrics[-1]["step"])


def cut_for_good(hosts: list[Host], cwd: Path) -> list[Outcome]:
    """Train, be cut off for a moment, train on, and be cut off."""
    with typed_on(hosts, cwd, *SLOW) as commands:
        zero = commands[0]
        zero.until(lambda: zero.training(7))
        hosts[1].cut()
        time.sleep(3)
        hosts[1].heal()
        reached = last_step(zero)
        zero.until(lambda: zero.training(reached + 5))
        hosts[1].cut()
        outcomes = [command.outcome(BOUND_S) for command in commands]
        for command in commands:
            command.gone_after(5)
    hosts[1].heal()
    return outcomes


def test_a_cut_is_told_on_both_sides_and_the_run_goes_on_from_its_checkpoint(
    tmp_path: Path, hosts: list[Host]
) -> None:
    zero, one = cut_for_good(hosts, tmp_path)
    assert [zero.code, one.code] == [1, 1]
    run = zero.run
    assert run.status["status"] == "failed"
    assert run.status["attempts"] == 1  # what was cut for a moment only stood still
    assert "node 1 does not answer" in zero.stderr
    assert "or the network to it is cut" in zero.stderr
    assert "node 1: the run failed: node 0 does not answer" in one.stderr
    assert run.status["steps"] >= 12

    words = (f"resume={run.folder}", TRUSTED, "+model.pace_s=0")
    with typed_on(hosts, tmp_path, *words) as commands:
        for command in commands:
            command.outcome(120).completed()
    again = commands[0].run()
    assert again is not None
    assert again.status["attempts"] == 2
    alone = tmp_path / "alone"
    alone.mkdir()
    reference = run_started(alone, *FAULTY, *STEPS, "parallel=single").completed().run
    assert again.column("step") == reference.column("step")
    assert again.column("train/loss") == pytest.approx(reference.column("train/loss"), rel=1e-5)
