"""Runs and sweeps on a real Slurm of two nodes."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurm import Slurm
from tests.faults.words import FAULTY, SMALL
from tests.processes import Family, family
from tests.runs import Outcome, Run, find_runs, outcome, start_train
from train.files import write_text

pytestmark = pytest.mark.slurm

SUBMIT = ("hydra/launcher=slurm", "hydra.launcher.cpus=1")
TWO_NODES = ("cluster=slurm", "cluster.nnodes=2", "cluster.nproc_per_node=1")
FEW = (*SMALL, "steps=4", "log_every=1", "eval_every=0")

LIMIT = 480.0
"""How long a command may take that takes a tenth of that on an idle machine, seconds."""


@pytest.fixture(scope="module")
def limited(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Family]:
    """A run that is longer than its time limit, which Slurm looks at every half a minute.

    It goes on beside the other tests, and has few steps left once it has been warned.
    """
    words = (*FAULTY, "steps=900", "+model.pace_s=0.1", "parallel=single", "run_id=limited")
    asked = ("hydra.launcher.time=2", "hydra.launcher.grace_s=30", "cluster.preempt_grace_s=20")
    cwd = tmp_path_factory.mktemp("limited")
    with family(cwd, *words, *SUBMIT, *asked, env=slurm.env) as command:
        threading.Thread(target=shorten, args=(command,), daemon=True).start()
        yield command


def shorten(command: Family) -> None:
    """Leave the job five further steps, in the config that it reads, once it has been warned."""
    run = command.cwd / "outputs" / "limited"
    while command.first.poll() is None:
        state = Run(run).status
        if state.get("status") == "preempted":
            config = run / ".hydra" / "job.yaml"
            text = config.read_text().replace("steps: 900\n", f"steps: {state['steps'] + 5}\n")
            write_text(config, text)
            return
        command.wait_a_little()


def submit(cwd: Path, slurm: Slurm, *words: str) -> Outcome:
    """A command to its end; what it leaves in Slurm lives on."""
    return outcome(start_train(cwd, *words, env=slurm.env), cwd, LIMIT)


def test_a_sweep_over_two_nodes(slurm: Slurm, limited: Family, tmp_path: Path) -> None:
    """Submitted and left; taken up, followed and compared. What cannot run is not submitted."""
    words = ("-m", *FEW, *SUBMIT, *TWO_NODES, "parallel=ddp,fsdp,zero1,single")
    left = submit(tmp_path, slurm, *words, "hydra.launcher.wait=false").completed()
    (journal,) = tmp_path.glob("outputs/*/*/sweep.json")
    folder = journal.parent
    content = json.loads((folder / "slurm" / "1" / "jobs.json").read_text())
    assert [run["folder"][0] for run in content["runs"]] == ["0", "1", "2"]
    assert f"scancel {content['job']}" in left.stderr
    assert f"sweep.resume={folder} hydra.launcher.wait=true" in left.stderr

    again = (f"sweep.resume={folder}", "hydra.launcher.wait=true")
    done = submit(tmp_path, slurm, *again)
    assert done.code == 2, done.stderr  # one is refused, none failed
    assert not (folder / "slurm" / "2").exists()
    assert "3 of 4 jobs completed" in done.stderr
    assert "lives in one process" in done.find(parallel="single").status["error"]["cause"]
    reference = done.find(parallel="ddp")
    for name in ("ddp", "fsdp", "zero1"):
        run = done.find(parallel=name)
        assert run.summary["cell"]["cluster"] == "2x1-cpu"
        losses, expected = run.column("train/loss"), reference.column("train/loss")
        assert losses == pytest.approx(expected, rel=1e-5)
    assert len((folder / "results.csv").read_text().splitlines()) == 5
    assert (folder / "report.html").exists()


SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
srun {train} parallel=ddp
srun --ntasks-per-node=1 {train} cluster=slurm cluster.nproc_per_node=1 parallel=fsdp
{train} parallel=ddp seed=1
"""


def test_srun_in_a_script_of_one_s_own(slurm: Slurm, limited: Family, tmp_path: Path) -> None:
    """A task a rank, and a task a node. Without srun it is refused: one node would stand idle."""
    script = tmp_path / "mine.sh"
    train = " ".join([sys.executable, "-m", "train", *FEW, "logger=none"])
    script.write_text(SCRIPT.format(train=train))
    launcher = ("sbatch", "--wait", "--output=said", str(script))
    ended = outcome(start_train(tmp_path, launcher=launcher, env=slurm.env), tmp_path, LIMIT)
    said = (tmp_path / "said").read_text()
    assert ended.code == 2, said  # the last command's
    assert "SLURM_NNODES=2 were allocated, and this command" in said
    assert "Traceback" not in said
    by_task, by_node = ended.find(parallel="ddp"), ended.find(parallel="fsdp")
    for run in (by_task, by_node):
        assert run.summary["cell"]["cluster"] == "2x1-cpu"
        assert run.folder.parent.name.startswith("slurm-")
    expected = pytest.approx(by_task.column("train/loss"), rel=1e-5)
    assert by_node.column("train/loss") == expected


def test_the_time_limit(limited: Family) -> None:
    """Warned, saved, put into the queue again, and gone on with, each step once."""
    done = limited.outcome(LIMIT).completed()
    run = done.run
    assert run.status["attempts"] >= 2
    first = run.status["history"][0]
    assert first["status"] == "preempted"
    assert "stopped by SIGUSR1 at step" in first["cause"]
    last = first["steps"] + 5
    assert run.column("step") == [*range(1, last + 1), last]
    assert "is in the queue again (preempted: stopped by SIGUSR1" in done.stdout
    (log,) = run.folder.glob("slurm/*/0.log")
    assert f"attempt     2, resuming from step {first['steps']}" in log.read_text()


def training(cwd: Path, number: int, step: int = 3) -> bool:
    """Whether so many runs have come to a step."""
    return sum(len(run.metrics) >= step for run in find_runs(cwd)) >= number


def job_of(run: Run) -> str:
    """Slurm's id of the array, or job, with which a run was submitted."""
    places = [run.folder / "slurm", run.folder.parent / "slurm"]
    (file,) = [path for place in places for path in place.glob("1/jobs.json")]
    return str(json.loads(file.read_text())["job"])


def test_cancelled_and_a_node_down(slurm: Slurm, limited: Family, tmp_path: Path) -> None:
    """Three jobs: one is cancelled, one before it begins, and the third loses its node."""
    limited.outcome(LIMIT)  # its node is needed
    words = ("-m", *FAULTY, "steps=150", "+model.pace_s=0.1", "parallel=single", "seed=0,1,2")
    asked = ("hydra/launcher=slurm", "hydra.launcher.cpus=2", "hydra.launcher.parallel=2")
    with family(tmp_path, *words, *asked, env=slurm.env) as command:
        command.until(lambda: training(tmp_path, 2), LIMIT)
        job = job_of(find_runs(tmp_path)[0])
        node = slurm.node_of(f"{job}_1")
        slurm.run("scancel", f"{job}_2")
        slurm.run("scancel", f"{job}_0")
        command.until(lambda: find_runs(tmp_path)[0].status["status"] != "running", LIMIT)
        slurm.node_down(node)
        try:
            done = command.outcome(LIMIT)
        finally:
            slurm.node_up(node)
    assert done.code == 75, done.stderr
    cancelled, moved, never = done.runs
    assert cancelled.status["status"] == "preempted"
    assert "stopped by SIGTERM at step" in cancelled.status["error"]["cause"]
    assert (never.status["status"], never.status["steps"]) == ("preempted", 0)
    assert "CANCELLED" in never.status["error"]["cause"]
    assert moved.status["status"] == "completed"
    assert moved.status["attempts"] == 2
    assert "1 of 3 jobs completed" in done.stderr


def test_preempted(slurm: Slurm, limited: Family, tmp_path: Path) -> None:
    """A job of more weight takes both nodes, for a while. Ctrl-C leaves the run to itself."""
    limited.outcome(LIMIT)
    words = (*FAULTY, "steps=200", "+model.pace_s=0.1", "parallel=single", "run_id=low")
    asked = ("hydra/launcher=slurm", "hydra.launcher.partition=low")
    command = start_train(tmp_path, *words, *asked, env=slurm.env)
    slurm.until(lambda: training(tmp_path, 1), LIMIT)
    command.send_signal(signal.SIGINT)
    left = outcome(command, tmp_path, LIMIT)
    assert left.code == 130
    assert "the job lives on in Slurm" in left.stderr
    job = job_of(left.run)
    assert f"scancel {job}" in left.stderr
    slurm.run("sbatch", "-p", "main", "-N2", "--exclusive", "--output=/dev/null", "--wrap=sleep 2")
    slurm.until(lambda: slurm.states()[job] == "COMPLETED", LIMIT)
    (run,) = find_runs(tmp_path)
    assert (run.status["status"], run.status["attempts"]) == ("completed", 2)
    assert "stopped by SIGTERM at step" in run.status["history"][0]["cause"]
