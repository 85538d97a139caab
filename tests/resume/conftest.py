"""A run of six steps with a checkpoint after each second, to go on with, to damage, to copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runs import Run, run_train

SMALL = (
    "data=synthetic",
    "data.kind=features",
    "data.train_samples=64",
    "data.val_samples=16",
    "model=mlp",
    "model.width=6",
    "global_batch_size=8",
    "parallel=single",
    "scheduler=constant",
    "log_every=1",
    "eval_every=2",
    "checkpoint.every_steps=2",
    "checkpoint.keep_last=3",
    "logger=none",
)
"""754 parameters and less."""


@pytest.fixture(scope="session")
def six_steps(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Complete, with checkpoints at 2, 4 and 6. To be read only."""
    return run_train(tmp_path_factory.mktemp("six"), *SMALL, "steps=6").completed().run


@pytest.fixture
def run(six_steps: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy at outputs/r below the present folder; relative."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(six_steps.folder, tmp_path / "outputs" / "r")
    return Path("outputs/r")


@dataclass(frozen=True)
class Said:
    """What a command in this process ended with and said."""

    code: int
    stdout: str
    stderr: str


Command = Callable[..., Said]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """A command that ends before it starts a rank: dry, refused, or with nothing left to do."""

    def call(*words: str) -> Said:
        from train.command import command as typed

        capsys.readouterr()
        code = typed([*words], None)
        return Said(code, *capsys.readouterr())

    return call
