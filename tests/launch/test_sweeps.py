"""The jobs of a sweep: each in fresh processes, in a folder of its own."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.faults.words import ENDLESS, FAULTY
from tests.processes import family
from tests.runs import Outcome, find_runs, run_started

STRATEGIES = ("ddp", "fsdp", "zero3", "pipeline")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Four starts and ends of each family of strategies."""
    return run_started(
        tmp_path_factory.mktemp("sweep"),
        "-m",
        *FAULTY,
        "seed=0,1,2,3",
        f"parallel={','.join(STRATEGIES)}",
        "data.val_samples=8",
        "+model.ballast_mb=50",
    )


def test_every_start_comes_to_a_clean_end(sweep: Outcome) -> None:
    sweep.completed()
    assert len(sweep.runs) == 16
    for run in sweep.runs:
        assert run.status["status"] == "completed"
        for rank in (0, 1):
            log = run.log(rank)
            assert "terminate called" not in log
            assert "Fatal Python error" not in log
            assert "Traceback" not in log


def test_each_job_has_fresh_processes(sweep: Outcome) -> None:
    """No process serves two jobs, and no state of a module goes from one job to the next."""
    words = [
        match
        for run in sweep.runs
        for rank in (0, 1)
        for match in re.findall(r"process (\d+), model (\d+) of it", run.log(rank))
    ]
    assert len(words) == 32
    assert len({pid for pid, _ in words}) == 32
    assert {model for _, model in words} == {"1"}


def test_no_memory_goes_from_one_job_to_the_next(sweep: Outcome) -> None:
    """Each model holds on to 50 MB and is never let go of."""
    resident = {
        run.overrides["seed"]: int(re.search(r"of it, (\d+) bytes", run.log(0))[1])  # type: ignore[index]
        for run in sweep.runs
        if run.overrides["parallel"] == "ddp"
    }
    assert len(resident) == 4
    assert resident["3"] < 1.1 * resident["0"]
    held = [max(sum(rank.values()) for rank in run.summary["held_bytes"]) for run in sweep.runs]
    assert max(held) < 1.1 * held[0]


def test_the_same_job_has_the_same_losses(sweep: Outcome) -> None:
    """Whatever ran before it in the sweep: the seeds of all strategies alike."""
    for seed in "0123":
        curves = [
            sweep.find(seed=seed, parallel=parallel).column("train/loss") for parallel in STRATEGIES
        ]
        for curve in curves[1:]:
            assert curve == pytest.approx(curves[0], rel=1e-5)


def test_names_of_folders(tmp_path: Path) -> None:
    """Slashes and long values: direct children of the sweep, unique, the overrides kept in full."""
    long = "x" * 300
    ended = run_started(
        tmp_path,
        "-m",
        *FAULTY,
        "steps=1",
        "parallel=single",
        f"+model.note=a/b,c/d,{long}",
    ).completed()
    folders = [run.folder for run in ended.runs]
    assert len({*folders}) == 3
    assert len({folder.parent for folder in folders}) == 1
    assert all(len(folder.name.encode()) <= 255 for folder in folders)
    kept = [OmegaConf.load(folder / ".hydra" / "overrides.yaml") for folder in folders]
    assert [next(word for word in words if word.startswith("+model.note=")) for words in kept] == [
        "+model.note=a/b",
        "+model.note=c/d",
        f"+model.note={long}",
    ]


def test_an_interrupt_ends_the_sweep(tmp_path: Path) -> None:
    """What is done stays done, the job at hand is told to have been stopped, no other starts."""
    words = (*ENDLESS, "steps=2,1000000,3", "parallel=single")
    with family(tmp_path, "-m", *words) as command:
        command.until(lambda: [run.column("step") for run in find_runs(tmp_path)][1:] > [[]])
        os.killpg(command.first.pid, signal.SIGINT)
        command.gone_after()
        ended = command.outcome()
    assert ended.code == 130
    assert [run.status["status"] for run in ended.runs] == ["completed", "failed"]
    assert ended.runs[1].status["error"]["cause"] == "stopped by SIGINT"
    assert "1 of 3 jobs completed" in ended.stderr
    assert "not started: 1 job\n" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_objective_that_there_is_not_is_told_at_the_first_evaluation(tmp_path: Path) -> None:
    """Not after a whole training; and with those that there are."""
    words = (*FAULTY[:-2], "steps=40", "eval_every=2", "seed=1,2", "sweep.objective=val/acuracy")
    ended = run_started(tmp_path, "-m", *words)
    assert ended.code == 2
    assert len(ended.runs) == 2
    for run in ended.runs:
        error = run.status["error"]
        assert (run.status["status"], error["kind"]) == ("refused", "refused")
        assert error["cause"].startswith("sweep.objective=val/acuracy is none of the run's metrics")
        assert "Did you mean val/accuracy?" in error["cause"]
        assert max(run.column("step")) == 2
