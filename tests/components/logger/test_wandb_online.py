"""Runs that are sent: to a server on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.logger.base import Loggers, RunInfo
from components.logger.wandb import WandbLogger
from components.logger.wandb_report import WandbReport
from tests.components.logger.test_wandb import (
    CELL,
    CONFIG,
    info,
    our_warnings,
    read_back,
    record,
)
from tests.components.logger.wandb_server import Server, serving
from tests.faults.test_disk_and_console import room, small_disk  # noqa: F401


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, to which the client of this process sends its runs."""
    for key in [key for key in os.environ if key.startswith("WANDB_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with serving() as one:
        for key, value in one.environment().items():
            monkeypatch.setenv(key, value)
        yield one


def send(folder: Path, *steps: int, status: str = "completed", **options: Any) -> None:
    loggers = Loggers([WandbLogger(mode="online", **options)])
    loggers.start(info(folder))
    for step in steps:
        loggers.log(record(step))
    loggers.finish(status, {})


def sync(cwd: Path, *runs: Path) -> str:
    command = [sys.executable, "-m", "wandb", "sync", *map(str, runs)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_run_arrives_with_all_that_is_known_of_it(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    send(tmp_path, 1, 2, status="failed")
    run = server.runs["run7"]
    assert run.config == {**CONFIG, "cell": CELL}
    assert (run.about["groupName"], run.about["jobType"]) == ("sweep", "ddp-bf16")
    assert run.about["displayName"] == "lr=0.001"
    assert sorted(run.about["tags"]) == ["bf16", "ddp", "single_node"]
    assert [(row["step"], row["train/loss"]) for row in run.rows] == [(1, 1.0), (2, 0.5)]
    assert (run.summary["status"], run.summary["exit_code"], run.exit_code) == ("failed", 1, 1)
    assert our_warnings(caplog) == []


def test_a_run_that_is_gone_on_with_is_the_same_run(server: Server, tmp_path: Path) -> None:
    """Also where steps that were sent are taken once more."""
    send(tmp_path, 1, 2, 3, status="preempted")
    send(tmp_path, 2, 3, 4)
    [run] = server.runs.values()
    assert [row["step"] for row in run.rows] == [1, 2, 3, 2, 3, 4]
    assert run.summary["status"] == "completed"
    logs = "".join(path.read_text() for path in tmp_path.glob("wandb/**/logs/*.log"))
    assert logs
    assert "less than current step" not in logs
    assert "tep must" not in logs


def test_a_server_that_goes_down_holds_nobody_up(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loggers = Loggers([WandbLogger(mode="online", finish_timeout_s=1.0)])
    loggers.start(info(tmp_path))
    loggers.log(record(1))
    while "run7" not in server.runs:
        time.sleep(0.01)
    server.down = True
    for step in range(2, 100):
        loggers.log(record(step))
    loggers.finish("completed", {})
    assert list(tmp_path.glob("wandb/run-*/run-run7.wandb"))


def test_offline_runs_and_a_report_arrive_by_sync(server: Server, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<p>all of it</p>")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        loggers = Loggers([WandbLogger()])
        about = RunInfo(tmp_path / name, f"run-{name}", name, CONFIG, CELL, "sweep", 3)
        loggers.start(about)
        loggers.log(record(1))
        loggers.finish("completed", {})
    for _ in range(2):  # a sweep that is gone on with has one report, the last
        report = WandbReport([page])
        report.start(RunInfo(tmp_path, "run-r", "report", {"jobs": 2}, {}, "sweep", 0))
        report.finish("completed", {})
    page.unlink()

    sync(tmp_path, *tmp_path.glob("wandb/offline-run-*"), *tmp_path.glob("*/wandb/offline-run-*"))
    assert sorted(server.runs) == ["run-a", "run-b", "run-r"]
    assert {run.about["groupName"] for run in server.runs.values()} == {"sweep"}
    assert [row["step"] for row in server.runs["run-a"].rows] == [1]
    sent = server.runs["run-r"]
    assert sent.about["jobType"] == "report"
    assert sent.files["report.html"] == b"<p>all of it</p>"
    assert sent.summary["status"] == "completed"


def test_a_server_that_never_answers_is_given_up_in_time(
    server: Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        send(tmp_path, 1, init_timeout_s=1.0)
    [warning] = our_warnings(caplog)
    assert "W&B could not go online" in warning
    assert [entry["item"]["step"] for entry in read_back(tmp_path)["history"]] == [1]


def test_a_full_disk_holds_nobody_up(small_disk: Path, server: Server) -> None:  # noqa: F811
    sink = WandbLogger()
    loggers = Loggers([sink])
    loggers.start(info(small_disk))
    loggers.log(record(1))
    while not list(small_disk.glob("wandb/offline-run-*/*.wandb")):
        time.sleep(0.01)
    (small_disk / "filling").write_bytes(bytes(room(small_disk)))
    for step in range(2, 3000):
        loggers.log(record(step))
    loggers.finish("completed", {})
    assert sink._thread is None
