"""What a run says at its start of comparing replicas."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from components.cluster.ranks import Ranks
from tests.gang import CPU
from train.health.replicas import comparison
from train.loop import Progress


def said(caplog: pytest.LogCaptureFixture, number: int, every: int, rank: int = 0) -> list[str]:
    caplog.clear()
    caplog.set_level(logging.INFO)
    parallel: Any = SimpleNamespace(name="fsdp", replicas=lambda: [None] * number)
    comparison(parallel, Ranks(rank, 2, rank, CPU), Progress(), every)
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_how_much_is_compared(caplog: pytest.LogCaptureFixture) -> None:
    words = "INFO drift_every=5: ranks compare 8 tensors that they hold alike"
    assert said(caplog, 8, every=5) == [words]


def test_that_nothing_is_compared(caplog: pytest.LogCaptureFixture) -> None:
    (words,) = said(caplog, 0, every=5)
    assert words.startswith("WARNING drift_every=5 compares nothing: under parallel=fsdp over 2 r")
    assert said(caplog, 0, every=5, rank=1) == []  # rank 0 says it for all
    assert said(caplog, 0, every=0) == []
