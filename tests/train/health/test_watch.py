"""When ranks are taken for stalled, by a clock that a test sets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from components.cluster.place import CODES, LAYOUT, Phase
from train.health import watch
from train.health.sight import place_path
from train.health.watch import Stalled, Watch

NOW = 10_000.0


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        @staticmethod
        def monotonic() -> float:
            return NOW

    monkeypatch.setattr(watch, "time", Clock)
    monkeypatch.setattr(watch, "with_stacks", lambda folder, sights: [*sights])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


def put(folder: Path, rank: int, age_s: float, phase: Phase = "data", warm: bool = True) -> None:
    content = LAYOUT.pack(5, CODES[phase], warm, NOW - age_s, os.getpid())
    place_path(folder, rank).write_bytes(content)


def stalls(folder: Path, stall_s: float | None = 30.0) -> bool:
    try:
        Watch(folder, [0, 1], stall_s).check()
    except Stalled:
        return True
    return False


def test_all_ranks_must_have_stood_still(folder: Path) -> None:
    put(folder, 0, 31.0)
    put(folder, 1, 29.0, "save")
    assert not stalls(folder)
    put(folder, 1, 31.0, "save")
    assert stalls(folder)
    assert not stalls(folder, None)


def test_the_first_step_may_take_ten_times_as_long(folder: Path) -> None:
    put(folder, 0, 299.0, "forward-backward", warm=False)
    put(folder, 1, 299.0, "forward-backward", warm=False)
    assert not stalls(folder)
    put(folder, 0, 301.0, "forward-backward", warm=False)
    put(folder, 1, 301.0, "forward-backward", warm=False)
    assert stalls(folder)


def test_what_comes_before_training_may_take_for_ever(folder: Path) -> None:
    put(folder, 0, 9_000.0)
    assert not stalls(folder)  # rank 1 has not begun
    put(folder, 1, 9_000.0, "start", warm=False)
    assert not stalls(folder)


def test_what_was_seen_is_kept_and_nothing_is_left(folder: Path) -> None:
    put(folder, 0, 31.0)  # of an attempt before
    (folder / "logs" / "rank-1.stacks.txt").touch()
    one = Watch(folder, [0, 1], 30.0)
    with one.on():
        assert not list((folder / "logs").iterdir())
        put(folder, 0, 31.0)
        put(folder, 1, 40.0, "save")
        with pytest.raises(Stalled):
            one.check()
    told: list[Any] = [(sight.rank, sight.step, sight.phase) for sight in one.sights]
    assert told == [(0, 5, "data"), (1, 5, "save")]
    assert not list((folder / "logs").iterdir())
