"""A scheduler's job that is preempted and started again is one run, in one folder."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.faults.words import ENDLESS
from tests.processes import family
from tests.runs import find_runs

JOB = {"SLURM_JOB_ID": "77"}


def test_a_requeued_job_goes_on(tmp_path: Path) -> None:
    """The same command, told by the scheduler that it is not the first: step by step, once each."""
    steps = (*ENDLESS, "steps=40")
    with family(tmp_path, *steps, env=JOB) as command:
        command.until(lambda: command.training(3))
        command.first.send_signal(signal.SIGTERM)
        command.gone_after(20)
        first = command.outcome()
    assert first.code == 75
    reached = first.run.status["steps"]
    with family(tmp_path, *steps, env={**JOB, "SLURM_RESTART_COUNT": "1"}) as command:
        again = command.outcome(120).completed()
    (run,) = find_runs(tmp_path)
    assert run.folder == first.run.folder
    assert f"attempt     2, resuming from step {reached}" in again.stdout
    # The last is an evaluation's.
    assert run.column("step") == [*range(1, 41), 40]
    assert run.status["attempts"] == 2
    (past,) = run.status["history"]
    assert (past["status"], past["steps"]) == ("preempted", reached)


def test_elements_of_an_array_are_different_runs(tmp_path: Path) -> None:
    words = (*ENDLESS, "steps=2", "parallel=single")
    for task in ("3", "4"):
        env = {**JOB, "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": task}
        with family(tmp_path, *words, env=env) as command:
            command.outcome(120).completed()
    assert [run.status["attempts"] for run in find_runs(tmp_path)] == [1, 1]
