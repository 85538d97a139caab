"""The batch script's side of a job: the step, the warning, and the queue again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.train.slurm.fake import FakeSlurm
from train import status
from train.files import read_json, write_json
from train.slurm.submission import Submission, Waiting

RUN = """\
#!{python}
import pathlib, signal, sys, time
sys.path.insert(0, {root!r})
from train import status
folder = pathlib.Path({folder!r})
warned = []
signal.signal(signal.SIGUSR1, lambda *_: warned.append(1))
attempt = status.reopen(folder) if status.read(folder) else status.claim(folder)
while {waits} and not warned:
    time.sleep(0.05)
error = dict(cause="why", kind="preempted" if {end!r} == "preempted" else "error", step={step})
status.finish(folder, {end!r}, None if {end!r} == "completed" else error, attempt=attempt)
sys.exit({code})
"""
"""In place of srun: a run that comes to an end, once it is warned if it waits for that."""

ROOT = str(Path(__file__).resolve().parents[3])


class Job:
    """A submitted run whose batch script can be run."""

    def __init__(self, base: Path, fake: FakeSlurm, **changes: Any) -> None:
        self.folder, self.fake = base / "0_job", fake
        place = base / "slurm" / "1"
        place.mkdir(parents=True)
        given = {"array": True, "nodes": 2, "requeue": True, **changes}
        Submission(place, [Waiting("0_job")], command=[], job="77", **given).write()
        self.place = place
        fake.answers("squeue", "77_0|RUNNING|None\n")

    def start(
        self, end: str, code: int, step: int = 0, waits: bool = False
    ) -> subprocess.Popen[str]:
        """Start the script; its step's run ends like that."""
        self.fake.script(
            "srun",
            RUN.format(
                python=sys.executable,
                root=ROOT,
                folder=str(self.folder),
                end=end,
                code=code,
                step=step,
                waits=waits,
            ),
        )
        env = {**os.environ, "SLURM_ARRAY_TASK_ID": "0", "SLURM_JOB_ID": "78", "PYTHONPATH": ROOT}
        words = [sys.executable, "-m", "train.slurm.batch", str(self.place)]
        return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)


def ends_its_caller(fake: FakeSlurm) -> None:
    """As Slurm ends the batch script of a job that goes back into the queue."""
    text = (fake.place / "scontrol").read_text()
    text = text.replace("sys.exit(", "import os; os.kill(os.getppid(), 9)\nsys.exit(")
    fake.script("scontrol", text)


@pytest.mark.parametrize(
    ("end", "code"), [("completed", 0), ("failed", 1), ("refused", 2), ("preempted", 75)]
)
def test_the_job_ends_as_its_run(tmp_path: Path, fake: FakeSlurm, end: str, code: int) -> None:
    job = Job(tmp_path, fake, requeue=False)
    script = job.start(end, code)
    script.communicate(timeout=60)
    assert script.returncode == code
    assert fake.told("scontrol") == []


def test_a_warned_run_saves_and_its_job_goes_back_into_the_queue(
    tmp_path: Path, fake: FakeSlurm
) -> None:
    job = Job(tmp_path, fake)
    ends_its_caller(fake)
    script = job.start("preempted", 75, step=3, waits=True)
    while not status.read(job.folder):
        assert script.poll() is None
    script.send_signal(signal.SIGUSR1)
    said, _ = script.communicate(timeout=60)
    assert "the job goes back into the queue" in said
    assert fake.told("scontrol") == [["requeue", "78"]]  # this element's own number


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT"])
def test_a_job_that_somebody_has_ended_does_not(
    tmp_path: Path, fake: FakeSlurm, state: str
) -> None:
    job = Job(tmp_path, fake)
    fake.answers("squeue", f"77_0|{state}|None\n")
    script = job.start("preempted", 75, step=3)
    script.communicate(timeout=60)
    assert script.returncode == 75
    assert fake.told("scontrol") == []


def test_nor_one_that_is_told_to_end_itself(tmp_path: Path, fake: FakeSlurm) -> None:
    job = Job(tmp_path, fake)
    script = job.start("preempted", 75, step=3, waits=True)
    while not status.read(job.folder):
        assert script.poll() is None
    script.send_signal(signal.SIGTERM)  # the steps have been told as well, by Slurm
    script.send_signal(signal.SIGUSR1)
    script.communicate(timeout=60)
    assert script.returncode == 75
    assert fake.told("scontrol") == []


def test_a_loop_without_progress_ends(tmp_path: Path, fake: FakeSlurm) -> None:
    """The third attempt that takes no step is the last; a fourth is not even started."""
    job = Job(tmp_path, fake)
    status.claim(job.folder)
    state = read_json(job.folder / status.FILE)
    history = [{"attempt": number, "steps": 0} for number in (1, 2)]
    write_json(job.folder / status.FILE, {**state, "attempts": 3, "history": history})
    status.finish(job.folder, "preempted", {"cause": "why", "kind": "preempted"}, attempt=3)
    script = job.start("completed", 0)
    said, _ = script.communicate(timeout=60)
    assert script.returncode == 1
    run = status.read(job.folder)
    assert (run["status"], run["attempts"]) == ("failed", 3)
    assert "3 attempts in a row" in run["error"]["cause"]
    assert run["error"]["cause"] in said
    assert fake.told("scontrol") == []
