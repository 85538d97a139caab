from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from components.logger.base import Logger, Loggers, RunInfo


class Recorder(Logger):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def start(self, info: RunInfo) -> None:
        self.calls.append("start")

    def log(self, record: dict[str, Any]) -> None:
        self.calls.append(record["step"])

    def finish(self, status: str, summary: dict[str, Any]) -> None:
        self.calls.append(status)


class FailsAtTwo(Recorder):
    def log(self, record: dict[str, Any]) -> None:
        super().log(record)
        if record["step"] == 2:
            raise ConnectionResetError("gone")


class Truth(FailsAtTwo):
    essential = True


INFO = RunInfo(Path(), "id", "name", {}, {}, None, 3)


def test_a_failing_sink_warns_once_and_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = FailsAtTwo(), Recorder()
    loggers = Loggers([bad, good])
    with caplog.at_level(logging.WARNING):
        loggers.start(INFO)
        for step in (1, 2, 3):
            loggers.log({"step": step, "time": 0.0})
        loggers.finish("completed", {})
    assert bad.calls == ["start", 1, 2]
    assert good.calls == ["start", 1, 2, 3, "completed"]
    [warning] = caplog.messages
    assert "FailsAtTwo is switched off" in warning
    assert "ConnectionResetError: gone" in warning


def test_an_essential_sink_propagates_after_the_others_had_their_turn() -> None:
    truth, mirror = Truth(), Recorder()
    loggers = Loggers([truth, mirror])
    loggers.log({"step": 1})
    with pytest.raises(ConnectionResetError, match="gone"):
        loggers.log({"step": 2})
    assert mirror.calls == [1, 2]
    # It stays on: the next record may get through.
    loggers.log({"step": 3})
    assert truth.calls == [1, 2, 3]
