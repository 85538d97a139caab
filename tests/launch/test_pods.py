"""Pods of a TrainJob, as processes of one machine: all that tells them apart is variables."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.words import SMALL
from tests.launch.test_one_folder import free_port
from tests.processes import Family, family
from tests.runs import Outcome, run_started

WORDS = (*SMALL, "log_every=1", "eval_every=0", "cluster.device=cpu", "parallel=ddp")
PLAIN = (sys.executable, "-m", "train")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "-m", "train")


def pod(rank: int, port: int, nnodes: int = 2, nproc: int = 1) -> dict[str, str]:
    """What the trainer sets in one pod."""
    return {
        "PET_NNODES": str(nnodes),
        "PET_NPROC_PER_NODE": str(nproc),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": str(port),
    }


def job(cwd: Path, *words: str, launcher: tuple[str, ...] = PLAIN) -> list[Outcome]:
    """Two pods, to their ends."""
    port = free_port()
    with ExitStack() as stack:
        commands: list[Family] = []
        for rank in (0, 1):
            env = pod(rank, port)
            commands.append(
                stack.enter_context(family(cwd, *WORDS, *words, env=env, launcher=launcher))
            )
            if rank == 0 and launcher == PLAIN:  # the second comes when the folder holds a run
                commands[0].until(lambda: [*cwd.glob("outputs/mine/config.yaml")] != [])
        return [command.outcome(90) for command in commands]


def test_two_pods_and_the_same_two_again(tmp_path: Path) -> None:
    """Those that are started again go on with the run, and end at once when it is complete."""
    words = ("cluster=kubernetes", "run_id=mine")
    for outcome in job(tmp_path, *words, "steps=3"):
        run = outcome.completed().run
    assert run.folder == tmp_path / "outputs" / "mine"
    assert run.summary["cell"]["world_size"] == 2
    assert run.summary["cell"]["cluster"] == "2x1-cpu"
    assert len(run.column("train/loss")) == 3

    again = job(tmp_path, *words, "steps=5")
    for outcome in again:
        run = outcome.completed().run
    assert "attempt     2, resuming from step 3" in again[0].stdout
    assert run.status["attempts"] == 2
    assert [record["step"] for record in run.metrics if "train/loss" in record] == [1, 2, 3, 4, 5]

    complete = job(tmp_path, *words, "steps=5")
    assert [outcome.code for outcome in complete] == [0, 0]
    assert all("nothing is left to do" in outcome.stdout for outcome in complete)


def test_torchrun_in_pods(tmp_path: Path) -> None:
    """torchrun reads the same variables; the config may ask the pod or not."""
    words = ("cluster=kubernetes", "run_id=mine", "steps=3")
    for outcome in job(tmp_path, *words, launcher=TORCHRUN):
        run = outcome.completed().run
    assert run.summary["cell"]["cluster"] == "2x1-cpu"
    assert len(run.column("train/loss")) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster.nnodes=4", "run_id=mine"), "cluster.nnodes=4, but PET_NNODES=2"),
        ((), "cluster=kubernetes without run_id"),
        (("-m", "seed=0,1"), "-m with cluster.nnodes=2"),
    ],
)
def test_refused_in_a_pod(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    outcome = run_started(tmp_path, *WORDS, "cluster=kubernetes", *words, env=pod(0, free_port()))
    assert outcome.code == 2
    assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_outside_a_pod(tmp_path: Path) -> None:
    outcome = run_started(tmp_path, *WORDS, "cluster=kubernetes", "run_id=mine")
    assert outcome.code == 2
    assert "PET_NNODES is missing from the environment" in outcome.stderr
    assert "Traceback" not in outcome.stderr
