"""Jobs of a sweep that run at the same time, each on its share of the machine."""

from __future__ import annotations

import os
import re
import signal
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from tests.faults.words import ENDLESS, FAULTY
from tests.processes import Family, family
from tests.runs import Outcome, Run, find_runs, run_started

ONE_RANK = ("parallel=single", "cluster.nproc_per_node=1", "sweep.slots=2")

two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two slots need two cores, and here is one"
)
pytestmark = two_cores


def _times(run: Run) -> tuple[datetime, datetime]:
    return tuple(datetime.fromisoformat(run.status[key]) for key in ("started", "ended"))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Four jobs in two slots, the second of which fails."""
    words = (*FAULTY, *ONE_RANK, "seed=0,1", "+model.fault=none,raise", "+model.on_rank=0")
    return run_started(tmp_path_factory.mktemp("slots"), "-m", *words, "+model.pace_s=0.3")


def test_all_come_to_their_ends(sweep: Outcome) -> None:
    assert sweep.code == 1
    ends = [run.status["status"] for run in sweep.runs]
    assert ends == ["completed", "failed", "completed", "failed"]
    assert "2 of 4 jobs completed" in sweep.stderr
    assert sweep.runs[1].status["error"]["cause"] == "ValueError: the widget is upside down"


def test_two_run_at_a_time_and_never_three(sweep: Outcome) -> None:
    times = [_times(run) for run in sweep.runs]
    running = [sum(start <= at < end for start, end in times) for at, _ in times]
    assert max(running) == 2


def test_each_keeps_to_its_share(sweep: Outcome) -> None:
    cores = [
        [*map(int, re.search(r"on cores \[([\d, ]+)\]", run.log(0))[1].split(","))]  # type: ignore[index]
        for run in sweep.runs
    ]
    half = len(os.sched_getaffinity(0)) // 2
    assert {len(own) for own in cores} == {half}
    assert {*cores[0]}.isdisjoint(cores[1])


def test_the_terminal_says_when_a_job_begins_and_how_it_ended(sweep: Outcome) -> None:
    for number, end in enumerate(["completed in", "failed: ", "completed in", "failed: "]):
        assert f"begins: job {number} ({number + 1} of 4): " in sweep.stdout
        assert f"ended:  job {number}: {end}" in sweep.stdout
    assert "step 1/4" not in sweep.stdout
    console = (sweep.runs[1].folder / "logs" / "console.log").read_text()
    assert "rank 0 failed after 2 steps: ValueError: the widget is upside down" in console


def test_the_record_has_the_command_that_was_typed(sweep: Outcome) -> None:
    command = sweep.runs[0].provenance["command"]
    assert " -m train -m " in command
    assert "forkserver" not in command
    assert sweep.runs[0].provenance["machine"]["cores"] == os.cpu_count()


def _both_train(folder: Path) -> bool:
    runs = find_runs(folder)
    return len(runs) == 2 and all(run.column("step") for run in runs)


@pytest.mark.parametrize(
    ("signum", "code", "end"),
    [(signal.SIGINT, 130, "failed"), (signal.SIGTERM, 75, "preempted")],
)
def test_a_signal_ends_all_of_them(
    tmp_path: Path, signum: signal.Signals, code: int, end: str
) -> None:
    """To the sweep's process alone, as a scheduler may send it."""
    with family(tmp_path, "-m", *ENDLESS, *ONE_RANK, "seed=0,1,2") as command:
        command.until(lambda: _both_train(tmp_path))
        os.kill(command.first.pid, signum)
        command.gone_after(20)
        ended = command.outcome()
    assert ended.code == code, ended.stderr
    assert [run.status["status"] for run in ended.runs] == [end, end]
    assert "0 of 3 jobs completed" in ended.stderr
    assert "not started: 1 job" in ended.stderr


def _slots(command: Family) -> list[psutil.Process]:
    """The processes that lead jobs, forked from the server of the command's own process."""
    servers = psutil.Process(command.first.pid).children()
    return [slot for server in servers for slot in server.children()]


def test_a_slot_that_is_killed_is_replaced(tmp_path: Path) -> None:
    words = (*ENDLESS, *ONE_RANK, "seed=0,1,2", "steps=60", "+model.pace_s=0.1")
    with family(tmp_path, "-m", *(w for w in words if w != ENDLESS[-1])) as command:
        command.until(lambda: _both_train(tmp_path))
        victim, _ = _slots(command)
        victim.kill()
        command.first.wait(120)
        ended = command.outcome()
    assert ended.code == 1
    assert sorted(run.status["status"] for run in ended.runs) == [
        "completed",
        "completed",
        "failed",
    ]
    (failed,) = [run for run in ended.runs if run.status["status"] == "failed"]
    cause = failed.status["error"]["cause"]
    assert cause == "the process that led this job was killed by SIGKILL"


def test_no_process_outlives_the_sweep(tmp_path: Path) -> None:
    with family(tmp_path, "-m", *ENDLESS, *ONE_RANK, "seed=0,1") as command:
        command.until(lambda: _both_train(tmp_path))
        command.first.kill()
        command.gone_after()
