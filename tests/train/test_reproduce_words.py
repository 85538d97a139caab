"""The command that runs a recorded run again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from components.errors import ConfigError
from train.reproduce_code import Tree, moved
from train.reproduce_words import Rerun, environment, pins, rerun


@pytest.fixture
def trees(tmp_path: Path) -> list[Tree]:
    """The project with its conf/, and a user's repository with modules and configs below mine/."""
    found = []
    for name, folders in (("project", ["conf"]), ("user", ["mine/conf", "lib"])):
        for folder in folders:
            (tmp_path / "now" / name / folder).mkdir(parents=True)
            (tmp_path / name / folder).mkdir(parents=True)
        found.append(Tree(tmp_path / name, tmp_path / "now" / name))
    (tmp_path / "now" / "project" / "train").mkdir()
    (tmp_path / "now" / "project" / "train" / "__main__.py").touch()
    return found


def command(tmp_path: Path, trees: list[Tree], task: list[str], **provenance: Any) -> Rerun:
    """For a run in a sweep, started in the user's folder mine/."""
    sources = [
        {"provider": "hydra", "path": "hydra.conf"},
        {"provider": "main", "path": str(tmp_path / "project" / "conf")},
        {"provider": "command-line", "path": f"file://{tmp_path / 'user' / 'mine' / 'conf'}"},
    ]
    own = ["hydra.mode=MULTIRUN", "hydra.sweep.dir=there", "hydra.launcher.n_jobs=2"]
    hydra = {
        "overrides": {"hydra": [*own, "hydra.searchpath=[file:///more]"], "task": task},
        "runtime": {"config_sources": sources},
        "job": {"config_name": "config"},
    }
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    OmegaConf.save(OmegaConf.create({"hydra": hydra}), tmp_path / "run" / ".hydra" / "hydra.yaml")
    recorded = {
        "cwd": str(tmp_path / "user" / "mine"),
        "project": str(tmp_path / "project"),
        "cell": {"cluster": "1x2-cpu"},
        "environment": {"PYTHONPATH": os.pathsep.join(["../lib", "/elsewhere"])},
        **provenance,
    }
    return rerun(tmp_path / "run", recorded, {}, trees, tmp_path / "it's new")


def test_the_words_of_the_run_without_those_of_its_start(tmp_path: Path, trees: list[Tree]) -> None:
    task = ["seed=3", "resume=auto", "run_id=mine", "resume_allow=[seed]", "~model.width"]
    again = command(tmp_path, trees, task)
    out = str(tmp_path / "it's new").replace("'", "\\'")
    assert again.argv == [
        *(sys.executable, "-m", "train", "--config-name=config"),
        f"--config-dir={tmp_path / 'now' / 'user' / 'mine' / 'conf'}",
        *("hydra.searchpath=[file:///more]", "seed=3", "~model.width"),
        *("hydra.mode=RUN", f"hydra.run.dir='{out}'"),
    ]
    assert again.cwd == tmp_path / "user" / "mine"


def test_modules_come_from_the_worktrees_in_the_order_of_then(
    tmp_path: Path, trees: list[Tree]
) -> None:
    again = command(tmp_path, trees, [])
    now = tmp_path / "now"
    assert again.environ["PYTHONPATH"].split(os.pathsep) == [
        str(now / "user" / "mine"),
        str(now / "user" / "lib"),
        "/elsewhere",
        str(now / "project"),
    ]
    assert again.environ["PYTHONSAFEPATH"] == "1"


def test_a_working_folder_that_is_gone(tmp_path: Path, trees: list[Tree]) -> None:
    again = command(tmp_path, trees, [], cwd=str(tmp_path / "gone"))
    assert again.cwd == Path.cwd()


def test_a_run_that_does_not_say_how_it_was_started(tmp_path: Path, trees: list[Tree]) -> None:
    with pytest.raises(ConfigError, match=r"hydra\.yaml"):
        rerun(tmp_path, {"cwd": "/", "cell": {"cluster": "1x1-cpu"}}, {}, trees, tmp_path / "out")


def test_a_package_beside_other_peoples_code_is_in_no_repository(
    tmp_path: Path, trees: list[Tree]
) -> None:
    """A virtual environment inside the user's repository, say."""
    packages = tmp_path / "user" / ".venv" / "site-packages"
    (packages / "train").mkdir(parents=True)
    (packages / "train" / "__main__.py").touch()
    with pytest.raises(ConfigError, match="was in no git repository"):
        command(tmp_path, trees, [], project=str(packages))


def test_what_auto_meant_is_pinned() -> None:
    recorded = {"cell": {"cluster": "1x4-cuda"}, "in_force": [{"threads": 3}] * 4}
    auto = {"nproc_per_node": 4, "device": "auto", "threads_per_rank": "auto"}
    assert pins({"cluster": auto}, recorded) == {
        "cluster.nproc_per_node": 4,
        "cluster.device": "cuda",
        "cluster.threads_per_rank": 3,
    }
    chosen = {"nproc_per_node": 4, "device": "cpu", "threads_per_rank": 2}
    assert pins({"cluster": chosen}, recorded) == {"cluster.nproc_per_node": 4}


def test_threads_are_as_they_were_and_no_launcher_is_left() -> None:
    now = {"HOME": "/h", "OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "8", "RANK": "0"}
    now |= {"SLURM_JOB_ID": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}
    recorded = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "3", "PYTHONHASHSEED": "0"}
    assert environment(now, recorded) == {
        "HOME": "/h",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }


def test_the_innermost_tree_counts_and_what_git_does_not_keep_stays(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    for name in ("a", "b"):
        (tmp_path / name / "code").mkdir(parents=True)
    (inner / "ignored").mkdir(parents=True)
    trees = [Tree(outer, tmp_path / "a"), Tree(inner, tmp_path / "b")]
    assert moved(inner / "code", trees) == tmp_path / "b" / "code"
    assert moved(outer / "code", trees) == tmp_path / "a" / "code"
    assert moved(inner / "ignored", trees) == inner / "ignored"
    assert moved(Path("/elsewhere"), trees) == Path("/elsewhere")
