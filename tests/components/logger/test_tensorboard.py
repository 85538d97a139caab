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


def test_the_config_is_there_to_read_and_to_compare_by(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    config = {"optimizer": {"lr": 0.1, "_target_": "x"}, "seed": 3, "api_key": "1234", "no": None}
    logger = TensorBoardLogger()
    logger.start(RunInfo(tmp_path, "id", "name", config, {"parallel": "ddp"}, None, 3))
    logger.finish("completed", {})

    assert [path.name for path in tmp_path.iterdir()] == ["tensorboard"]
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    (text,) = events.Tensors("config/text_summary")[0].tensor_proto.string_val
    assert b'"lr": 0.1' in text
    assert b"1234" not in text
    data = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    found = HParamsPluginData.FromString(data).session_start_info.hparams
    assert set(found) == {"optimizer.lr", "seed", "api_key", "cell.parallel"}
    assert (found["optimizer.lr"].number_value, found["seed"].number_value) == (0.1, 3.0)


def test_a_missing_package_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'shardlab\[tensorboard\]'"):
        TensorBoardLogger()
