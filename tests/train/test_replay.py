"""A run in three offline slices, and the one W&B run that its record makes."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.logger import wandb as sink
from tests.components.logger.test_wandb import read_back
from tests.faults.words import ENDLESS, SMALL
from tests.processes import family
from tests.runs import Run, run_train
from train.replay import main

WORDS = (*ENDLESS, "eval_every=2", "cluster.nproc_per_node=1", "logger=default")


@pytest.fixture(scope="module", autouse=True)
def _no_account() -> Iterator[None]:
    """No key and no settings of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith("WANDB_")]:
            patch.delenv(key)
        yield


@pytest.fixture(scope="module")
def sliced(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Stopped by a scheduler's signal, gone on with for two steps, and for two more."""
    cwd = tmp_path_factory.mktemp("sliced")
    with family(cwd, *WORDS) as command:
        command.until(lambda: command.training(3))
        command.first.send_signal(signal.SIGTERM)
        outcome = command.outcome(30)
    assert outcome.code == 75, outcome.stderr
    folder = outcome.run.folder
    for _ in range(2):
        steps = Run(folder).status["steps"] + 2
        run_train(cwd, f"resume={folder}", f"steps={steps}", "logger=default").completed()
    return Run(folder)


def segments(folder: Path) -> list[str]:
    """The ids of W&B's runs in a run's folder."""
    return [path.name.rpartition("-")[2] for path in folder.glob("wandb/offline-run-*")]


def rows(folder: Path) -> list[dict[str, Any]]:
    """What a replay has written."""
    return [entry["item"] for entry in read_back(folder / "replay")["history"]]


def test_slices_make_one_run_with_each_step_once(
    sliced: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(sliced.folder), "--project", "mine"]) == 0
    last = sliced.status["steps"]
    told, cure = capsys.readouterr().out.splitlines()
    name = sliced.folder.name.partition("_")[2]
    assert told.startswith(f"{last} steps on record, up to step {last}, of {name} as W&B run")
    assert cure == f"upload it with: wandb sync {told.rpartition(': ')[2]}"

    written = rows(sliced.folder)
    assert [row["step"] for row in written] == [*range(1, last + 1)]
    losses = {r["step"]: r["train/loss"] for r in sliced.metrics if "train/loss" in r}
    assert {row["step"]: row["train/loss"] for row in written} == losses
    evaluated = {step for step in range(1, last + 1) if step % 2 == 0} | {last - 2, last}
    assert {row["step"] for row in written if "val/loss" in row} == evaluated
    assert all(row["_timestamp"] == row["time"] for row in written)

    records = read_back(sliced.folder / "replay")
    run = records["run"][0]
    assert run["project"] == "mine"
    assert run["display_name"] == sliced.folder.name.partition("_")[2]
    assert run["run_id"] not in segments(sliced.folder)
    assert run["config"]["update"]["replay_of"] == sliced.provenance["run"]["id"]
    assert run["config"]["update"]["steps"] == last
    assert records["exit"][0].get("exit_code", 0) == 0
    logs = "".join(path.read_text() for path in sliced.folder.glob("replay/wandb/**/*.log"))
    assert "less than current step" not in logs


def test_all_slices_carry_one_id_and_tell_of_the_replay(sliced: Run) -> None:
    assert segments(sliced.folder) == [sliced.provenance["run"]["id"]] * 3
    said = f"comes of: python -m train.replay {sliced.folder}"
    assert "2 earlier offline segment(s) of this run" in sliced.log()
    assert said in sliced.log()


def test_a_copy_that_goes_on_is_another_run(sliced: Run, tmp_path: Path) -> None:
    copy = shutil.copytree(sliced.folder, tmp_path / "copy", symlinks=True)
    shutil.rmtree(copy / "wandb")
    steps = sliced.status["steps"] + 1
    run_train(tmp_path, f"resume={copy}", f"steps={steps}", "logger=default").completed()
    (own,) = segments(copy)
    assert own not in segments(sliced.folder)


def test_jobs_of_a_sweep_have_ids_of_their_own(tmp_path: Path) -> None:
    words = (*SMALL, "cluster.nproc_per_node=1", "steps=1", "logger=default")
    outcome = run_train(tmp_path, "-m", *words, "seed=0,1").completed()
    ids = [segments(run.folder) for run in outcome.runs]
    assert [len(own) for own in ids] == [1, 1]
    assert ids[0] != ids[1]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A folder as of a run that was killed in its 300th record."""
    lines = [
        json.dumps({"step": step, "time": 1.7e9 + step, "train/loss": 1 / step}) + "\n"
        for step in range(1, 300)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"step": 300, "ti')
    (tmp_path / "config.yaml").write_text("steps: 400\nlogger: {}\n")
    cell = {"precision": "fp32", "parallel": "single", "cluster": "1x1-cpu", "world_size": 1}
    (tmp_path / "provenance.json").write_text(json.dumps({"run": {"id": "old"}, "cell": cell}))
    (tmp_path / "status.json").write_text(json.dumps({"status": "running"}))
    return tmp_path


def test_it_waits_for_room_and_leaves_a_torn_line_out(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sink, "QUEUE_SIZE", 4)
    assert main([str(record)]) == 0
    assert "the run has not ended" in capsys.readouterr().out
    assert [row["step"] for row in rows(record)] == [*range(1, 300)]


def test_online_without_an_account_says_so(
    record: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with caplog.at_level(logging.WARNING):
        assert main([str(record), "--mode", "online"]) == 1
    assert "W&B could not go online" in caplog.text
    assert len(rows(record)) == 299


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("metrics.jsonl", "has no metrics.jsonl. Give the folder of a run."),
        ("config.yaml", "config.yaml is missing. Give the folder of a run."),
        ("provenance.json", "has no provenance.json of a run that was started."),
    ],
)
def test_no_run(record: Path, capsys: pytest.CaptureFixture[str], missing: str, said: str) -> None:
    (record / missing).unlink()
    assert main([str(record)]) == 2
    assert said in capsys.readouterr().err
