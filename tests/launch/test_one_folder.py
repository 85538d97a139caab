"""One run folder for each job, whoever starts the processes and whenever they come."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.words import ENDLESS, FAULTY, SMALL, TORCHRUN
from tests.processes import family
from tests.runs import TESTS, Run, find_runs

QUICK = (*SMALL, "steps=3", "log_every=1", "eval_every=0", "checkpoint=default")

SKEW = """
import os, sys, time
if os.environ.get("RANK") == os.environ.get("LATE_RANK"):
    time.sleep(1.5)
"""
"""As `sitecustomize`: one rank comes later than the other."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_only(cwd: Path, world_size: int = 2) -> Run:
    """Exactly one run, one stored config, one record, one log for each rank."""
    (run,) = find_runs(cwd)
    assert run.status["status"] == "completed"
    assert [p.parent.parent for p in cwd.glob("**/.hydra/config.yaml")] == [run.folder]
    assert [p.parent for p in cwd.glob("**/metrics.jsonl")] == [run.folder]
    logs = sorted(p.name for p in (run.folder / "logs").iterdir())
    assert logs == [f"rank-{rank}.log" for rank in range(world_size)]
    assert len(run.column("train/loss")) == 3
    assert run.summary["cell"]["world_size"] == world_size
    return run


@pytest.mark.parametrize("late", [0, 1])
def test_torchrun(tmp_path: Path, late: int) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SKEW)
    env = {"LATE_RANK": str(late), "PYTHONPATH": f"{site}{os.pathsep}{TESTS.parent}"}
    with family(tmp_path, *QUICK, launcher=TORCHRUN, env=env) as command:
        outcome = command.outcome(90).completed()
        command.gone_after()
    run = check_only(tmp_path)
    assert outcome.stdout.count(str(run.folder)) == 2  # where it begins and where it ends


def test_srun(tmp_path: Path) -> None:
    """Two tasks of a step: all that srun gives them is variables."""
    step = {
        "SLURM_JOB_ID": str(free_port()),  # the port of the step's store is taken from it
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_NNODES": "1",
    }
    with ExitStack() as stack:
        tasks = []
        for task in ("1", "0"):
            env = {**step, "SLURM_PROCID": task, "SLURM_LOCALID": task}
            tasks.append(stack.enter_context(family(tmp_path, *QUICK, env=env)))
            time.sleep(1.0)
        for command in tasks:
            command.outcome(90).completed()
    check_only(tmp_path)


def node(
    cwd: Path, rank: int, endpoint: str, *words: str, launcher: tuple[str, ...] = ()
) -> ExitStack:
    return family(
        cwd,
        *QUICK,
        *words,
        "cluster=multi_node",
        f"cluster.node_rank={rank}",
        f"cluster.rdzv_endpoint={endpoint}",
        launcher=(*launcher, sys.executable, "-m", "train"),
    )


def test_two_nodes_on_one_disk(tmp_path: Path) -> None:
    """The same command on each node; the one that others wait for comes late."""
    endpoint = f"127.0.0.1:{free_port()}"
    words = ("cluster.nproc_per_node=1",)
    with node(tmp_path, 1, endpoint, *words) as early:
        time.sleep(1.5)
        with node(tmp_path, 0, endpoint, *words) as late:
            for command in (early, late):
                command.outcome(90).completed()
    check_only(tmp_path)


def test_a_rank_fails_on_one_of_two_nodes(tmp_path: Path) -> None:
    """Both controllers name the guilty rank."""
    endpoint = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        commands = [
            stack.enter_context(
                node(
                    tmp_path,
                    rank,
                    endpoint,
                    *FAULTY,
                    "+model.fault=raise",
                    "cluster.nproc_per_node=1",
                )
            )
            for rank in (1, 0)
        ]
        outcomes = [command.outcome(90) for command in commands]
    for outcome in outcomes:
        assert outcome.code == 1
        assert "rank 1 failed after 2 steps: ValueError: the widget" in outcome.stderr
        assert "rank 0 failed" not in outcome.stderr
    assert outcomes[0].run.status["error"]["rank"] == 1


def test_a_node_dies(tmp_path: Path) -> None:
    """For good: nothing is started again, whatever is allowed."""
    endpoint = f"127.0.0.1:{free_port()}"
    words = (*ENDLESS, "cluster.nproc_per_node=1", "cluster.max_restarts=2")
    with node(tmp_path, 0, endpoint, *words) as zero, node(tmp_path, 1, endpoint, *words) as one:
        zero.until(lambda: zero.training(2))
        one.first.kill()
        one.gone_after()
        outcome = zero.outcome(25)
        zero.gone_after()
    assert outcome.code == 1
    assert outcome.run.status["error"]["cause"].startswith("node 1 does not answer")
