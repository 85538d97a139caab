"""What cannot run is refused with exit code 2: said once, and nothing is left behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faults.words import SMALL, TORCHRUN
from tests.processes import family
from tests.runs import Outcome, outcome, run_started, start_train

REFUSED: dict[tuple[str, ...], list[str]] = {
    # A misspelt key, and one in a place that takes any.
    ("optimzer.lr=0.1",): ["optimzer.lr", "optimizer.lr"],
    ("+optimizer.lrr=0.1",): ["optimizer.lrr", "lr"],
    # Values that must be given, told together.
    ("cluster=multi_node",): ["cluster.node_rank", "cluster.rdzv_endpoint"],
    # A target with a wrong name, with a missing package, with a constructor that raises.
    ("model._target_=torch.nn.Linearr",): ["model", "Linear"],
    ("model._target_=probe_missing.Model",): ["model", "not_there"],
    (*SMALL, "model._target_=probe_faults.OddDepth", "~model.width", "~model.layers"): [
        "model",
        "depth must be even",
    ],
    # A sweep with one value of the wrong type, and an argument that nobody has.
    ("-m", *SMALL, "model.width=8,sixteen"): ["job 1", "model.width", "sixteen", "int"],
    (*SMALL, "+model.bogus=1"): ["model.bogus", "MLP"],
    # Combinations.
    (*SMALL, "parallel=single", "cluster.nproc_per_node=2"): ["parallel=single", "one process"],
    ("-m", "cluster=multi_node", "cluster.node_rank=0", "cluster.rdzv_endpoint=a:1", "seed=0,1"): [
        "-m with cluster.nnodes=2"
    ],
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Outcome]:
    """All of them, two at a time."""
    ended: dict[tuple[str, ...], Outcome] = {}
    running: dict[tuple[str, ...], tuple[subprocess.Popen[str], Path]] = {}
    for words in [*REFUSED, None, None]:
        if len(running) == 2 or words is None:
            oldest = next(iter(running))
            ended[oldest] = outcome(*running.pop(oldest), timeout=60)
        if words is not None:
            cwd = tmp_path_factory.mktemp("refused")
            running[words] = (start_train(cwd, *words), cwd)
    return ended


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_refused(commands: dict[tuple[str, ...], Outcome], words: tuple[str, ...]) -> None:
    ended = commands[words]
    assert ended.code == 2, ended.stderr
    assert ended.stderr.startswith("refused: ")
    assert ended.stderr.count("refused: ") == 1
    assert "Traceback" not in ended.stderr
    for word in REFUSED[words]:
        assert word in ended.stderr
    assert ended.stdout == ""
    assert ended.runs == []


def test_no_folder_is_made(commands: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert list(tmp_path_factory.getbasetemp().glob("refused*/outputs")) == []


def test_a_folder_that_holds_a_run(tmp_path: Path) -> None:
    words = (*SMALL, "steps=2", "parallel=single", "hydra.run.dir=mine")
    first = run_started(tmp_path, *words).completed().run
    before = {p: p.read_bytes() for p in first.folder.rglob("*") if p.is_file()}
    second = run_started(tmp_path, *words, "seed=1")
    assert second.code == 2
    assert "hydra.run.dir=mine already holds a run" in second.stderr
    assert {p: p.read_bytes() for p in first.folder.rglob("*") if p.is_file()} == before


def test_a_file_in_the_folders_place(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("mine")
    ended = run_started(tmp_path, *SMALL)
    assert ended.code == 2
    assert "hydra.run.dir=outputs/" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "outputs").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (("-m", "seed=0,1"), ["-m under torchrun", "python -m train -m seed=0,1"]),
        (("cluster.nproc_per_node=3",), ["cluster.nproc_per_node=3", "torchrun started 2"]),
        (("cluster.max_restarts=1",), ["cluster.max_restarts=1 under torchrun", "--max-restarts"]),
    ],
)
def test_under_torchrun(tmp_path: Path, words: tuple[str, ...], reasons: list[str]) -> None:
    with family(tmp_path, *words, *SMALL, launcher=TORCHRUN) as command:
        ended = command.outcome(60)
        command.gone_after()
    assert ended.code != 0
    assert ended.stderr.count("refused: ") == 1
    for reason in reasons:
        assert reason in ended.stderr
    assert "exitcode  : 2" in ended.stderr
    assert ended.runs == []


def test_a_dry_run_under_torchrun(tmp_path: Path) -> None:
    with family(tmp_path, "dry_run=true", *SMALL, launcher=TORCHRUN) as command:
        ended = command.outcome(60).completed()
    assert ended.stdout.count("2 ranks on 1 node,") == 1
    assert ended.runs == []
