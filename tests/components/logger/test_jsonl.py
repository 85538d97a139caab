from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from components.logger.base import RunInfo
from components.logger.jsonl import JsonlLogger


def started(folder: Path) -> JsonlLogger:
    logger = JsonlLogger()
    logger.start(RunInfo(folder, "id", "name", {}, {}, None, 3))
    return logger


def test_lines_are_on_disk_at_once_and_numbers_are_exact(tmp_path: Path) -> None:
    logger = started(tmp_path)
    logger.log({"step": 1, "time": 0.5, "train/loss": 0.1 + 0.2})
    assert (tmp_path / "metrics.jsonl").read_text() == (
        '{"step": 1, "time": 0.5, "train/loss": 0.30000000000000004}\n'
    )
    logger.finish("completed", {})


def test_scalars_of_numpy_and_torch_are_numbers_and_nonfinite_is_null(tmp_path: Path) -> None:
    logger = started(tmp_path)
    logger.log(
        {
            "step": np.int64(7),
            "a": torch.tensor(1.5),
            "b": np.float32(0.25),
            "c": torch.tensor(2.0, dtype=torch.bfloat16),
            "nan": float("nan"),
            "inf": torch.tensor(float("inf")),
            "list": [np.float64("-inf"), 1, None, True],
        }
    )
    logger.finish("completed", {})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {
        "step": 7,
        "a": 1.5,
        "b": 0.25,
        "c": 2.0,
        "nan": None,
        "inf": None,
        "list": [None, 1, None, True],
    }


def test_a_second_attempt_appends_and_drops_a_torn_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2, "tra')
    logger = started(tmp_path)
    logger.log({"step": 2})
    logger.finish("completed", {})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"step": 1}, {"step": 2}]


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = started(tmp_path)

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            logger.log({"step": 1})
    logger.finish("failed", {})
