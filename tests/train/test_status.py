"""A run's status over its attempts, and the lock of the process that leads it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import ConfigError
from train import lock, status
from train.files import write_json

ERROR = {"kind": "killed", "cause": "killed by SIGKILL", "rank": 1, "step": 7}

LEADER = """
import sys, time
from pathlib import Path
from train import status
getattr(status, sys.argv[2])(Path(sys.argv[1]))
print("leads", flush=True)
time.sleep(600)
"""


def leader(folder: Path, how: str) -> subprocess.Popen[str]:
    """Another process that leads the run in `folder`."""
    root = str(Path(status.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", LEADER, str(folder), how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "leads\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_run_that_is_gone_on_with(tmp_path: Path) -> None:
    assert status.claim(tmp_path) == 1
    started = status.read(tmp_path)["started"]
    status.finish(tmp_path, "failed", ERROR, attempt=1)
    ended = status.read(tmp_path)["ended"]
    assert status.reopen(tmp_path) == 2
    now = status.read(tmp_path)
    assert (now["status"], now["attempts"], now["error"], now["ended"]) == (
        "running",
        2,
        None,
        None,
    )
    assert now["started"] == started
    assert now["attempt_started"] >= ended
    assert now["history"] == [
        {
            "attempt": 1,
            "ended": ended,
            "status": "failed",
            "cause": "killed by SIGKILL",
            "steps": 7,
        }
    ]
    status.finish(tmp_path, "completed", attempt=2)


def test_an_attempt_that_is_tried_again_at_once(tmp_path: Path) -> None:
    """By the process that leads the run, and keeps leading it."""
    status.claim(tmp_path)
    assert status.reopen(tmp_path, ERROR) == 2
    (past,) = status.read(tmp_path)["history"]
    assert (past["status"], past["cause"], past["steps"]) == ("failed", "killed by SIGKILL", 7)
    assert past["ended"] is not None
    status.finish(tmp_path, "completed", attempt=2)


def test_a_run_whose_process_was_killed(tmp_path: Path) -> None:
    process = leader(tmp_path, "claim")
    killed(process)
    (tmp_path / "metrics.jsonl").write_text('{"step": 3}\n{"step": 4}\n{"st')
    assert status.reopen(tmp_path) == 2
    (past,) = status.read(tmp_path)["history"]
    assert (past["status"], past["steps"], past["ended"]) == ("failed", 4, None)
    assert past["cause"] == "the process that led it is gone without a word"
    status.finish(tmp_path, "completed", attempt=2)


@pytest.mark.parametrize("how", ["claim", "reopen"])
def test_a_run_that_is_still_going(tmp_path: Path, how: str) -> None:
    if how == "reopen":
        status.claim(tmp_path)
        status.finish(tmp_path, "preempted", attempt=1)
    process = leader(tmp_path, how)
    before = status.read(tmp_path)
    with pytest.raises(ConfigError, match=rf"still going \(process {process.pid} on "):
        status.reopen(tmp_path)
    assert status.read(tmp_path) == before
    killed(process)
    assert status.reopen(tmp_path) == before["attempts"] + 1
    status.finish(tmp_path, "failed", attempt=before["attempts"] + 1)


def test_no_lock_is_left_behind(tmp_path: Path) -> None:
    status.claim(tmp_path)
    assert (tmp_path / lock.FILE).exists()
    status.finish(tmp_path, "completed", attempt=1)
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_a_rank_that_tells_of_the_end_leaves_a_living_leaders_lock(tmp_path: Path) -> None:
    process = leader(tmp_path, "claim")
    status.finish(tmp_path, "failed", ERROR, attempt=1)
    assert (tmp_path / lock.FILE).exists()
    killed(process)
    status.finish(tmp_path, "failed", ERROR, attempt=1)
    assert not (tmp_path / lock.FILE).exists()


def test_a_forked_process_does_not_hold_the_lock(tmp_path: Path) -> None:
    """Data workers are forked from a rank that leads, and may outlive it for a moment."""
    status.claim(tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.read(reader, 1)
        os._exit(0)
    lock.release(tmp_path)
    process = leader(tmp_path, "reopen")
    killed(process)
    os.write(writer, b"x")
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


def test_an_attempt_that_is_over_writes_nothing(tmp_path: Path) -> None:
    status.claim(tmp_path)
    status.refuse_if_over(tmp_path, 1)
    status.reopen(tmp_path, ERROR)
    before = status.read(tmp_path)
    status.finish(tmp_path, "failed", {"cause": "late"}, attempt=1)
    assert status.read(tmp_path) == before
    with pytest.raises(status.AttemptOver, match=r"attempt 1 of .* and attempt 2 has begun"):
        status.refuse_if_over(tmp_path, 1)
    status.finish(tmp_path, "completed", attempt=2)


def test_what_ranks_said_before_is_put_aside(tmp_path: Path) -> None:
    status.claim(tmp_path)
    logs = tmp_path / "logs"
    write_json(logs / "rank-1.failure.json", ERROR)
    for attempt in (1, 2):
        (logs / "rank-1.traceback.txt").write_text(f"Traceback {attempt}")
        write_json(tmp_path / "summary.json", {"steps": attempt})
        status.reopen(tmp_path, ERROR)
    kept = {path.name: path.read_text() for path in logs.glob("attempt-*.txt")}
    assert kept == {
        "attempt-1.rank-1.traceback.txt": "Traceback 1",
        "attempt-2.rank-1.traceback.txt": "Traceback 2",
    }
    assert not (logs / "rank-1.failure.json").exists()
    assert not (tmp_path / "summary.json").exists()
    assert (logs / "attempt-2.summary.json").exists()
    status.finish(tmp_path, "completed", attempt=3)


def test_the_nodes_of_each_attempt(tmp_path: Path) -> None:
    """They stand with the attempt, and go into its history; the next may be another's."""
    status.claim(tmp_path)
    status.note_nodes(tmp_path, {"0": "a", "2": "c"}, world_size=4)
    saved = {"kind": "preempted", "cause": "node 2 (c) was warned and left", "step": 9}
    status.reopen(tmp_path, saved)
    now = status.read(tmp_path)
    (past,) = now["history"]
    assert (past["status"], past["cause"], past["steps"]) == ("preempted", saved["cause"], 9)
    assert (past["nodes"], past["world_size"]) == ({"0": "a", "2": "c"}, 4)
    assert "nodes" not in now
    status.finish(tmp_path, "completed", attempt=2)
