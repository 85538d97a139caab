"""Jobs that are followed to their ends, by what squeue says from time to time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.train.slurm.fake import FakeSlurm
from tests.train.sweep.jobs import ended
from train import status
from train.slurm.follow import Follower, Watched
from train.slurm.submission import Submission, Waiting

Look = str | Callable[[], None]
"""What squeue says next, or what happens before it does."""


def follow(
    base: Path, fake: FakeSlurm, looks: list[Look], jobs: int = 1, stop: bool = False
) -> None:
    """Follow runs `0_job`, `1_job`, ... of the array 77."""
    place = base / "slurm" / "1"
    place.mkdir(parents=True)
    runs = [Waiting(f"{number}_job") for number in range(jobs)]
    one = Submission(place, runs, True, 1, True, [], "77")
    watched = [
        Watched(one, n, f"job {n}", f"job {n} ({n + 1} of {jobs}): seed={n}") for n in range(jobs)
    ]
    left = list(looks)

    def next_look(seconds: float) -> None:
        if seconds < 5:  # not a pause between two looks
            return
        while left and not isinstance(left[0], str):
            left.pop(0)()
        assert left, "still followed"
        fake.answers("squeue", str(left.pop(0)))

    next_look(5)
    Follower(watched, None, stop, sleep=next_look).run()
    assert not left


def test_from_the_queue_to_the_end(
    tmp_path: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[Look] = [
        "77_0|PENDING|Priority\n",
        "77_0|RUNNING|None\n",
        lambda: ended(tmp_path / "0_job", "completed"),
        "77_0|COMPLETED|None\n",
    ]
    follow(tmp_path, fake, looks)
    said = capsys.readouterr().out.splitlines()
    assert said == ["begins: job 0 (1 of 1): seed=0 (77_0)", "ended:  job 0: completed in 0 s"]
    assert fake.told("squeue")[0][-1] == "--jobs=77"


def test_a_job_that_goes_back_into_the_queue_is_not_over(
    tmp_path: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "0_job"

    def again() -> None:
        status.reopen(folder)
        status.finish(folder, "completed", attempt=2)

    looks: list[Look] = [
        "77_0|RUNNING|None\n",
        lambda: ended(folder, "preempted", "stopped by SIGUSR1 at step 3, which is saved"),
        "77_0|PREEMPTED|None\n",  # for a moment
        "77_0|PENDING|BeginTime\n",
        "77_0|RUNNING|None\n",
        again,
        "77_0|COMPLETED|None\n",
    ]
    follow(tmp_path, fake, looks)
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("again:  job 0: is in the queue again (preempted: stopped by SIGUSR1")
    assert [line[:7] for line in said] == ["begins:", "again: ", "begins:", "ended: "]


def test_a_lost_node_that_nothing_follows_is_the_end(
    tmp_path: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[Look] = [
        "77_0|RUNNING|None\n",
        lambda: status.claim(tmp_path / "0_job") and None,
        "77_0|NODE_FAIL|None\n",
        "77_0|NODE_FAIL|None\n",
    ]
    follow(tmp_path, fake, looks)
    run = status.read(tmp_path / "0_job")
    assert (run["status"], run["error"]["kind"]) == ("failed", "killed")
    assert "NODE_FAIL" in capsys.readouterr().out


def test_a_job_that_waits_for_something_else_says_for_what(
    tmp_path: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[Look] = [
        "77_0|PENDING|Resources\n",
        "77_0|PENDING|ReqNodeNotAvail, UnavailableNodes:node2\n",
        "77_0|PENDING|ReqNodeNotAvail, UnavailableNodes:node2\n",
        "77_0|CANCELLED|None\n",
    ]
    follow(tmp_path, fake, looks)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "waits:  job 0: ReqNodeNotAvail, UnavailableNodes:node2 (77_0)"
    assert "before the run began" in said[1]
    assert status.read(tmp_path / "0_job")["status"] == "preempted"


def test_slurm_that_does_not_answer_is_asked_again(
    tmp_path: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = "Unable to contact slurm controller (connect failure)"
    looks: list[Look] = [
        "77_0|RUNNING|None\n",
        "77_0|RUNNING|None\n",
        lambda: ended(tmp_path / "0_job", "completed"),
        "77_0|COMPLETED|None\n",
    ]
    answers = fake.answers

    def first_silent(name: str, said: str, code: int = 0) -> None:
        asked = len(fake.told("squeue"))
        answers(name, silent, 1) if asked in (1, 2) else answers(name, said, code)

    fake.answers = first_silent  # type: ignore[method-assign]
    looks[1:1] = ["", ""]
    follow(tmp_path, fake, looks)
    told = capsys.readouterr()
    assert told.err.count(silent) == 1
    assert "ended:  job 0: completed" in told.out


def test_a_job_that_slurm_forgets_has_its_own_word(
    tmp_path: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[Look] = [
        "77_0|RUNNING|None\n",
        lambda: ended(tmp_path / "0_job", "completed"),
        "",
        "",
    ]
    follow(tmp_path, fake, looks)
    assert "ended:  job 0: completed" in capsys.readouterr().out


def test_after_a_failure_what_has_not_begun_is_taken_out(tmp_path: Path, fake: FakeSlurm) -> None:
    looks: list[Look] = [
        "77_0|RUNNING|None\n77_1|PENDING|JobArrayTaskLimit\n",
        lambda: ended(tmp_path / "0_job", "failed", "why"),
        "77_0|FAILED|NonZeroExitCode\n77_1|PENDING|JobArrayTaskLimit\n",
        "77_0|FAILED|NonZeroExitCode\n77_1|CANCELLED|None\n",
    ]
    follow(tmp_path, fake, looks, jobs=2, stop=True)
    assert fake.told("scancel") == [["--state=PENDING", "77"]]
    assert not (tmp_path / "1_job").exists()  # not started, rather than preempted
