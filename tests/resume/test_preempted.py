"""A warned run is saved wherever the warning meets it, and goes on as if it had not been warned."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.words import FAULTY, SMALL, TORCHRUN
from tests.processes import Family, family
from tests.runs import Run, run_train

PLACE = ("hydra.run.dir=run", "resume=auto", "steps=12", "eval_every=4", "checkpoint.keep_last=1")

TRAINING = (*FAULTY, *PLACE, "+model.pace_s=0.2")
ACCUMULATING = (*TRAINING, "accumulation=4")
EVALUATING = (
    *SMALL,
    *PLACE,
    "log_every=1",
    "micro_batch_size=1",
    "data._target_=probe_faults.SlowEvaluation",
    *(f"~data.{key}" for key in ("kind", "train_samples", "val_samples", "vocab_size", "seq_len")),
    *(f"~data.{key}" for key in ("masked_fraction", "seed", "epoch_end", "shuffle", "num_workers")),
    "+data.pace_s=0.02",
    "+data.begun=begun",
)
LOADING = (
    *SMALL,
    *PLACE,
    "log_every=1",
    "data._target_=probe_faults.SlowSamples",
    *(f"~data.{key}" for key in ("kind", "train_samples", "val_samples", "vocab_size", "seq_len")),
    *(f"~data.{key}" for key in ("masked_fraction", "seed", "epoch_end", "shuffle")),
    "+data.pace_s=0.1",
    "data.num_workers=1",
)

Warn = Callable[[Family], None]


def the_command(command: Family) -> None:
    command.first.send_signal(signal.SIGUSR1)


def everybody(command: Family) -> None:
    """As a scheduler does."""
    os.killpg(command.first.pid, signal.SIGTERM)


def one_rank(command: Family) -> None:
    command.ranks()[1].send_signal(signal.SIGTERM)


CASES: dict[str, tuple[tuple[str, ...], Warn]] = {
    "training": (TRAINING, the_command),
    "accumulating": (ACCUMULATING, one_rank),
    "evaluating": (EVALUATING, everybody),
    "loading": (LOADING, everybody),
}


def begun(command: Family, case: str) -> bool:
    """Whether the place is reached where the warning is to meet the run."""
    if case == "evaluating":
        return (command.cwd / "begun").exists()
    return command.training(2)


def whole(run: Run) -> None:
    """Each step once, each evaluation once."""
    assert [r["step"] for r in run.metrics if "train/loss" in r] == list(range(1, 13))
    assert [r["step"] for r in run.metrics if "val/loss" in r] == [4, 8, 12]


@pytest.mark.parametrize("case", CASES)
def test_it_goes_on_as_if_nothing_had_been(tmp_path: Path, case: str) -> None:
    words, warn = CASES[case]
    for name in ("straight", "warned"):
        (tmp_path / name).mkdir()
    straight = run_train(tmp_path / "straight", *words).completed().run
    with family(tmp_path / "warned", *words) as command:
        command.until(lambda: begun(command, case))
        warn(command)
        command.first.wait(60)
        command.gone_after()
        ended = command.outcome()
    assert ended.code == 75, ended.stderr
    step = ended.run.status["steps"]
    assert ended.run.status["status"] == "preempted"
    assert 2 <= step < 12
    assert [p.name for p in (ended.run.folder / "checkpoints").iterdir()] == [f"step-{step:06d}"]
    if case == "evaluating":
        assert step == 4
        assert ended.run.column("val/loss") == []

    second = run_train(tmp_path / "warned", *words).completed()
    assert f"2, resuming from step {step}" in second.stdout
    whole(second.run)
    for metric in ("train/loss", "train/grad_norm", "lr", "samples", "val/loss"):
        assert second.run.column(metric) == straight.column(metric)
    assert second.run.status["attempts"] == 2


def test_under_torchrun(tmp_path: Path) -> None:
    with family(tmp_path, *TRAINING, launcher=TORCHRUN) as command:
        command.until(lambda: command.training(2))
        command.first.send_signal(signal.SIGTERM)
        command.first.wait(60)
        command.gone_after()
        run = command.outcome().run
    assert run.status["status"] == "preempted"
    whole(run_train(tmp_path, *TRAINING).completed().run)
