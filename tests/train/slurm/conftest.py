"""A Slurm that does nothing but answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.slurm.fake import FakeSlurm


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm.on_path(tmp_path / "bin", monkeypatch)
