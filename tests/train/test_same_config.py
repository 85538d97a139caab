"""Nodes of one run have to be given the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.command_line import compose_jobs, parse
from train.preflight import preflight
from train.same_config import TOLD, differing, given

SMALL = ("data=synthetic", "cluster.device=cpu", "cluster.nproc_per_node=2", "logger=none")


def of(folder: Path, *words: str) -> str:
    (job,) = compose_jobs(parse([*SMALL, *words]))
    return given(preflight(job.config, None, folder))


@pytest.fixture
def first(tmp_path: Path) -> str:
    return of(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("cluster.interface=lo", "cluster.start_timeout_s=7"),
        ("logger=tensorboard",),
        ("dry_run=true", "memory_check=warn"),
    ],
)
def test_what_may_be_a_nodes_own(tmp_path: Path, first: str, words: tuple[str, ...]) -> None:
    assert differing(first, of(tmp_path, *words)) is None


def test_differences_are_told_by_words_and_keys(tmp_path: Path, first: str) -> None:
    said = differing(first, of(tmp_path, "parallel=fsdp", "seed=7"))
    assert said is not None
    assert said.startswith(
        "was given other words than node 0 (parallel: ddp -> fsdp; seed: 0 -> 7), "
    )
    assert "cluster.node_rank" in said


def test_only_some_of_many_differences_are_told(tmp_path: Path, first: str) -> None:
    words = (
        "drift_every=7",
        "seed=3",
        "eval_every=5",
        "log_every=3",
        "clip_norm=0.3",
        "compile=true",
    )
    said = differing(first, of(tmp_path, *words))
    assert said is not None
    assert said.count(" -> ") == TOLD
    assert "; and 2 more)" in said


def test_auto_may_find_otherwise_on_another_machine(tmp_path: Path) -> None:
    auto = ("parallel=auto", "parallel.among=[{}]")
    one, other = (
        of(tmp_path, *(word.format(name) for word in auto)) for name in ("ddp", "pipeline")
    )
    assert differing(one, other) is None
    typed = differing(one, of(tmp_path, "parallel=ddp"))
    assert typed is not None
    assert "parallel: auto -> ddp" in typed
