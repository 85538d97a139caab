"""What a run writes to goes away: the disk is full, nobody reads the console."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.words import FAULTY, SMALL
from tests.processes import family
from tests.runs import run_train


def mounted(folder: Path) -> bool:
    """Whether a disk of 600 KB could be made at `folder`."""
    words = ["mount", "-t", "tmpfs", "-o", "size=600k", "shardlab-test", str(folder)]
    return subprocess.run(words, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mounted(folder):
        pytest.skip("only root can make a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    """The run stops, and still says why: on the console and in its folder."""
    with family(small_disk, *FAULTY, "steps=1000000", "+model.pace_s=0.002") as command:
        command.until(lambda: command.training(2))
        # 30 KB are room for some hundred records.
        (small_disk / "filling").write_bytes(bytes(room(small_disk) - 30_000))
        command.first.wait(60)
        command.gone_after()
        ended = command.outcome()
    assert ended.code == 1
    status = ended.run.status
    assert status["status"] == "failed"
    assert "No space left on device" in status["error"]["cause"]
    assert "No space left on device" in ended.stderr
    assert status["steps"] >= 2
    # What was recorded before is whole but for a torn last line.
    lines = (ended.run.folder / "metrics.jsonl").read_text().splitlines()
    assert len(lines) >= 2


def room(folder: Path) -> int:
    """Bytes that still fit."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_bsize


def test_a_disk_that_is_full_from_the_start(small_disk: Path) -> None:
    (small_disk / "filling").write_bytes(bytes(600_000))
    ended = run_train(small_disk, *SMALL)
    assert ended.code == 2
    assert "hydra.run.dir" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    """As in `python -m train | head -1`: training goes on to its end."""
    with family(tmp_path, *FAULTY) as command:
        assert command.first.stdout is not None
        assert command.first.stdout.readline().startswith("cell ")
        command.first.stdout.close()
        command.first.stdout = None
        command.first.wait(60)
        ended = command.outcome().completed()
    assert ended.stderr == ""
    assert len(ended.run.column("train/loss")) == 4


def test_no_console_at_all(tmp_path: Path) -> None:
    """As in `python -m train >&- 2>&- <&-`."""
    closing = 'exec "$0" -m train "$@" >&- 2>&- <&-'
    with family(tmp_path, *FAULTY, launcher=("sh", "-c", closing, sys.executable)) as command:
        ended = command.outcome(60).completed()
    assert len(ended.run.column("train/loss")) == 4


def test_the_terminal_closes_under_nohup(tmp_path: Path) -> None:
    """A hang-up that was to be ignored is."""
    words = (*FAULTY, "steps=60", "+model.pace_s=0.02")
    with family(tmp_path, *words, launcher=("nohup", sys.executable, "-m", "train")) as command:
        command.until(lambda: command.training(2))
        os.killpg(command.first.pid, signal.SIGHUP)
        command.outcome(60).completed()
