from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from components.errors import ConfigError
from components.logger.base import RunInfo
from components.logger.tensorboard import TensorBoardLogger


def test_scalars_by_step_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger()
    logger.start(RunInfo(tmp_path, "id", "name", {"lr": 0.1}, {}, None, 3))
    logger.log({"step": 1, "time": 10.0, "train/loss": 0.5})
    logger.log({"step": 3, "time": 30.0, "train/loss": 0.25, "val/loss": float("nan")})
    logger.finish("completed", {})

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["train/loss"]
    assert [(e.step, e.wall_time, e.value) for e in events.Scalars("train/loss")] == [
        (1, 10.0, 0.5),
        (3, 30.0, 0.25),
    ]


def test_a_missing_package_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'shardlab\[tensorboard\]'"):
        TensorBoardLogger()
