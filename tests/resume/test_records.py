"""The records of a run that was killed between two checkpoints: each step once, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.words import FAULTY
from tests.runs import Outcome, run_train

WORDS = (
    *FAULTY,
    "parallel=ddp",
    "cluster.nproc_per_node=2",
    "scheduler=constant",
    "eval_every=2",
    "checkpoint.every_steps=4",
    "logger=none",
    "steps=8",
    "run_id=mine",
)


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Killed in the sixth step, after the checkpoint at 4 and the record of 5; then to the end."""
    cwd = tmp_path_factory.mktemp("killed")
    once = f"+model.once={cwd / 'happened'}"
    words = (*WORDS, "+model.fault=segfault", "+model.at_step=6", once)
    first = run_train(cwd, *words)
    assert first.run.column("step")[-1] == 5
    return [first, run_train(cwd, *words).completed()]


def test_it_was_killed_after_five(attempts: list[Outcome]) -> None:
    first, second = attempts
    assert first.code == 1
    assert "1 record after step 4 put aside: logs/superseded.jsonl" in second.stdout


def test_each_step_once(attempts: list[Outcome]) -> None:
    run = attempts[1].run
    assert [r["step"] for r in run.metrics if "train/loss" in r] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [r["step"] for r in run.metrics if "val/loss" in r] == [2, 4, 6, 8]
    assert run.column("samples") == [8, 16, 24, 32, 40, 48, 56, 64]
    assert run.summary["steps"] == run.summary["updates"] == 8


def test_the_rest_is_kept(attempts: list[Outcome]) -> None:
    first, second = attempts
    (line,) = (second.run.folder / "logs" / "superseded.jsonl").read_text().splitlines()
    aside = json.loads(line)
    assert aside == first.run.metrics[-1]
    # Taken again, the step is the same to the bit.
    (again,) = [r for r in second.run.metrics if r["step"] == 5]
    for name in ("train/loss", "train/grad_norm", "lr", "samples"):
        assert again[name] == aside[name]


def test_the_status_tells_of_both(attempts: list[Outcome]) -> None:
    status = attempts[1].run.status
    assert (status["status"], status["attempts"], status["steps"]) == ("completed", 2, 8)
    (first,) = status["history"]
    assert (first["status"], first["steps"]) == ("failed", 5)
    assert not list(Path(attempts[1].run.folder).glob("checkpoints/*.partial"))
