"""Training on two hosts: the curve of one process, and files that are shared or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.cluster.hosts import Host
from tests.cluster.nodes import typed_on
from tests.launch.test_preparation import builds, words
from tests.runs import Outcome, Run, find_runs, run_started

pytestmark = pytest.mark.netns

SHORT = ("steps=4", "log_every=1", "eval_every=0")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What one process finds."""
    cwd = tmp_path_factory.mktemp("alone")
    return run_started(cwd, *words(cwd, *SHORT, "parallel=single")).completed().run


def ends(hosts: list[Host], cwd: Path, *further: str, **where: object) -> list[Outcome]:
    """How the command ended on each host."""
    with typed_on(hosts, cwd, *further, **where) as commands:  # type: ignore[arg-type]
        outcomes = [command.outcome(120) for command in commands]
        for command in commands:
            command.gone_after(20)
    return outcomes


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "zero2", "pipeline"])
def test_the_curve_is_that_of_one_process(
    tmp_path: Path, hosts: list[Host], alone: Run, strategy: str
) -> None:
    for outcome in ends(hosts, tmp_path, *words(tmp_path, *SHORT, f"parallel={strategy}")):
        outcome.completed()
    (run,) = find_runs(tmp_path)
    assert run.column("train/loss") == pytest.approx(alone.column("train/loss"), rel=1e-5)
    assert run.column("train/grad_norm") == pytest.approx(alone.column("train/grad_norm"), rel=1e-5)
    # One folder, which both have written into; what both need is prepared once.
    assert sorted(p.name for p in (run.folder / "logs").iterdir()) == ["rank-0.log", "rank-1.log"]
    assert OmegaConf.load(run.folder / "config.yaml").cluster.nnodes == 2
    assert builds(tmp_path) == 1


def test_two_disks(tmp_path: Path, hosts: list[Host], alone: Run) -> None:
    """Each prepares for itself, and neither is held to the other's time; checkpoints are off."""
    cwd, disk = tmp_path / "cwd", tmp_path / "disk"
    cwd.mkdir()
    disk.mkdir()
    slow = ("+data.takes_s=12", "+data.on_host=node1", "cluster.timeout_s=10")
    further = words(cwd, *SHORT, *slow, "checkpoint=weights")
    for outcome in ends(hosts, cwd, *further, mounts={1: {cwd: disk}}):
        outcome.completed()
    assert (builds(cwd), builds(disk)) == (1, 1)
    (run,) = find_runs(cwd)
    assert run.column("train/loss") == pytest.approx(alone.column("train/loss"), rel=1e-5)
    other = disk / run.folder.relative_to(cwd)
    logs = [sorted(p.name for p in (folder / "logs").iterdir()) for folder in (run.folder, other)]
    assert logs == [["rank-0.log"], ["rank-1.log"]]
    assert (run.folder / "weights.safetensors").exists()
    assert not (other / "weights.safetensors").exists()


def test_a_failure_to_prepare_on_one_node_is_everybodys(tmp_path: Path, hosts: list[Host]) -> None:
    """It prepares on a disk of its own: on a common one the other might have done so for it."""
    cwd, disk = tmp_path / "cwd", tmp_path / "disk"
    cwd.mkdir()
    disk.mkdir()
    fails = ("+data.fails=true", "+data.on_host=node1", "checkpoint=weights")
    outcomes = ends(hosts, cwd, *words(cwd, *SHORT, *fails), mounts={1: {cwd: disk}})
    assert [outcome.code for outcome in outcomes] == [1, 1]
    error = outcomes[0].run.status["error"]
    assert error["rank"] == 1
    assert error["cause"] == "RuntimeError: the source of the data is gone"
    for outcome in outcomes:
        assert "rank 1 failed: RuntimeError: the source of the data is gone" in outcome.stderr
