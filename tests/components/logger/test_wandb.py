"""With the real client; its files are read back by its own reader."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from components.errors import ConfigError
from components.logger.base import Loggers, RunInfo
from components.logger.wandb import WandbLogger

CONFIG = {"optimizer": {"lr": 0.001, "betas": [0.9, 0.95]}, "clip_norm": None, "steps": 3}
CELL = {"precision": "bf16", "parallel": "ddp", "cluster": "single_node", "world_size": 2}


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, no settings and no server of whoever runs the tests."""
    for key in [key for key in os.environ if key.startswith("WANDB_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def info(folder: Path) -> RunInfo:
    return RunInfo(folder, "run7", "lr=0.001", CONFIG, CELL, "sweep", 3)


def record(step: int) -> dict[str, Any]:
    return {"step": step, "time": 0.0, "train/loss": 1 / step, "val/loss": None}


def read_back(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of the one offline run in `folder`, by type."""
    [run] = folder.glob("wandb/offline-run-*/run-*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(run)]
    env = {**os.environ, "WANDB_ERROR_REPORTING": "false"}
    output = subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout
    records: dict[str, list[dict[str, Any]]] = {}
    for line in output.splitlines():
        entry = json.loads(line)
        records.setdefault(entry["type"], []).append(entry[entry["type"]])
    return records


def our_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Without the client's own, which go to its debug.log."""
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno >= logging.WARNING and r.name.startswith("components.")
    ]


def test_an_offline_run_reads_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    env, hooks = dict(os.environ), (sys.exit, sys.excepthook)
    loggers = Loggers([WandbLogger(tags=["mine"])])
    loggers.start(info(tmp_path))
    for step in (1, 2, 2, 4):
        loggers.log(record(step))
    loggers.finish("failed", {"best": {"val/loss": 1.5}})
    assert os.environ == env
    assert (sys.exit, sys.excepthook) == hooks
    assert capfd.readouterr() == ("", "")

    records = read_back(tmp_path)
    run = records["run"][0]
    config = run["config"]["update"]
    assert config["optimizer"] == {"lr": 0.001, "betas": [0.9, 0.95]}
    assert config["clip_norm"] is None
    assert config["steps"] == 3
    assert config["cell"] == CELL
    assert run["run_id"] == "run7"
    assert run["display_name"] == "lr=0.001"
    assert run["run_group"] == "sweep"
    assert run["job_type"] == "ddp-bf16"
    assert sorted(run["tags"]) == ["bf16", "ddp", "mine", "single_node"]

    rows = [entry["item"] for entry in records["history"]]
    assert [row["step"] for row in rows] == [1, 2, 2, 4]
    assert [row["train/loss"] for row in rows] == [1.0, 0.5, 0.5, 0.25]
    assert rows[0]["val/loss"] is None
    metrics = records["metric"]
    assert any(m.get("glob_name") == "*" and m.get("step_metric") == "step" for m in metrics)
    assert records["exit"][0]["exit_code"] == 1
    assert any(
        entry["update"].get("best") == {"val/loss": 1.5} and entry["update"]["status"] == "failed"
        for entry in records["summary"]
    )


def test_online_without_an_account_goes_offline_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loggers = Loggers([WandbLogger(mode="online")])
    loggers.start(info(tmp_path))
    loggers.log(record(1))
    loggers.finish("completed", {})
    [warning] = our_warnings(caplog)
    assert "W&B could not go online" in warning
    assert "wandb sync" in warning
    records = read_back(tmp_path)
    assert [entry["item"]["step"] for entry in records["history"]] == [1]
    assert records["exit"][0].get("exit_code", 0) == 0


def test_an_earlier_offline_segment_is_spoken_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "wandb" / "offline-run-20260101_000000-run7").mkdir(parents=True)
    with caplog.at_level(logging.INFO, "components.logger.wandb"):
        sink = WandbLogger()
        sink.start(info(tmp_path))
        sink.finish("completed", {})
    assert "1 earlier offline segment(s) of this run" in caplog.text


def test_a_server_that_refuses_is_given_up_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    loggers = Loggers([WandbLogger(mode="online", init_timeout_s=1.0)])
    loggers.start(info(tmp_path))
    loggers.log(record(1))
    loggers.finish("completed", {})
    [warning] = our_warnings(caplog)
    assert "W&B could not go online" in warning
    assert "; after 1 s)" in warning
    assert [entry["item"]["step"] for entry in read_back(tmp_path)["history"]] == [1]


def test_a_killed_service_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = WandbLogger()
    loggers = Loggers([sink])
    loggers.start(info(tmp_path))
    while sink._service is None:
        time.sleep(0.01)
    sink._service.kill()
    sink._service.wait()
    for step in range(1, 50):
        loggers.log(record(step))
        time.sleep(0.002)
    loggers.finish("completed", {})
    [warning] = our_warnings(caplog)
    assert "WandbLogger is switched off" in warning


def test_disabled_does_not_import_the_client() -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from components.logger.base import RunInfo\n"
        "from components.logger.wandb import WandbLogger\n"
        "sink = WandbLogger(mode='disabled')\n"
        "sink.start(RunInfo(Path(), 'id', 'name', {}, {}, None, 3))\n"
        "sink.log({'step': 1})\n"
        "sink.finish('completed', {})\n"
        "assert 'wandb' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"logger\.wandb\.mode=on is unknown"):
        WandbLogger(mode="on")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"finish_timeout_s=0 must be above 0"):
        WandbLogger(finish_timeout_s=0)
