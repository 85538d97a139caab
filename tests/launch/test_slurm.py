"""`hydra/launcher=slurm` with commands that only look like Slurm's: all but the queue."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.faults.words import FAULTY
from tests.runs import find_runs, run_started
from tests.train.slurm.fake import FakeSlurm
from train.files import read_json

SBATCH = """\
#!{python}
import os, subprocess, sys
env = {{**os.environ, "SLURM_JOB_ID": "78", "SLURM_NTASKS": "1"}}
env |= {{"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "0"}}
words = ["sh", "-c", 'bash "$1" >/dev/null 2>&1; touch "$2"', "-", sys.argv[-1], {over!r}]
subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("77")
"""
"""Runs the first element of an array."""

SQUEUE = """\
#!/bin/sh
if [ -e "{over}" ]; then echo "77_0|COMPLETED|None"; else echo "77_0|RUNNING|None"; fi
"""

SRUN = """\
#!{python}
import os, sys
words = [word for word in sys.argv[1:] if not word.startswith("--")]
step = {{"SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost", "SLURM_NODEID": "0"}}
step |= {{"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}}
os.execvpe(words[0], words, {{**os.environ, **step}})
"""

NASTY = 'a\'b "c" $(touch pwned) `touch pwned`; touch pwned & %j \\\\ ü'


def path_of(fake: FakeSlurm) -> dict[str, str]:
    return {"PATH": f"{fake.place}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm.on_path(tmp_path / "bin", monkeypatch)


def test_values_never_pass_through_a_shell(tmp_path: Path, fake: FakeSlurm) -> None:
    """A sweep, submitted and run: what is typed arrives as it is; what cannot run does not."""
    over = str(tmp_path / "over")
    fake.script("sbatch", SBATCH.format(python=sys.executable, over=over))
    fake.script("srun", SRUN.format(python=sys.executable))
    fake.script("squeue", SQUEUE.format(over=over))
    quoted = NASTY.replace("'", "\\'")
    words = ("-m", *FAULTY, "steps=2", "hydra/launcher=slurm", "cluster=slurm", "parallel=single")
    asked = (f"+model.note='{quoted}'", "hydra.launcher.setup=['touch set_up']")
    cells = ("cluster.nproc_per_node=1,2",)
    ended = run_started(tmp_path, *words, *asked, *cells, env=path_of(fake))
    assert ended.code == 2, ended.stdout + ended.stderr
    assert "1 of 2 jobs completed" in ended.stderr
    done, refused = ended.runs
    assert (done.status["status"], refused.status["status"]) == ("completed", "refused")
    assert OmegaConf.load(done.folder / "config.yaml").model.note == NASTY
    submitted = read_json(done.folder.parent / "slurm" / "1" / "jobs.json")
    assert [run["folder"] for run in submitted["runs"]] == [done.folder.name]
    assert "touch pwned" not in (done.folder.parent / "slurm" / "1" / "job.sh").read_text()
    assert not [*tmp_path.rglob("pwned")]
    assert [*tmp_path.rglob("set_up")]
    assert "-m train -m" in done.provenance["command"]


def test_a_single_run_without_waiting(tmp_path: Path, fake: FakeSlurm) -> None:
    """Submitted and left; given again, it is found in the queue."""
    words = (*FAULTY, "hydra/launcher=slurm", "hydra.launcher.wait=false", "run_id=mine")
    left = run_started(tmp_path, *words, env=path_of(fake)).completed()
    (told,) = fake.told("sbatch")
    assert f"--chdir={tmp_path}" in told
    assert "scancel 77" in left.stderr
    assert find_runs(tmp_path) == []
    fake.answers("squeue", "77|PENDING|Priority\n")
    again = run_started(tmp_path, *words, env=path_of(fake))
    assert again.code == 2
    assert "is in Slurm already, as job 77" in again.stderr
    assert len(fake.told("sbatch")) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hydra.launcher.time=soon",), "hydra.launcher.time=soon: must be a time"),
        (
            ("-m", "seed=0,1", "sweep.slots=2"),
            "at once are hydra.launcher.parallel=2",
        ),
        (("parallel=single", "cluster.nproc_per_node=2"), "lives in one process"),
    ],
)
def test_refused_before_anything_is_submitted(
    tmp_path: Path, fake: FakeSlurm, words: tuple[str, ...], said: str
) -> None:
    ended = run_started(tmp_path, *FAULTY, "hydra/launcher=slurm", *words, env=path_of(fake))
    assert ended.code == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert fake.told("sbatch") == []


@pytest.mark.parametrize(
    ("words", "env", "both"),
    [
        (
            ("parallel=ddp",),
            {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"},
            ("SLURM_NTASKS=4", "2 ranks"),
        ),
        (
            ("-m", "seed=0,1"),
            {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NNODES": "2"},
            ("SLURM_NNODES=2", "cluster.nnodes=1"),
        ),
    ],
)
def test_srun_forgotten(
    tmp_path: Path, words: tuple[str, ...], env: dict[str, str], both: tuple[str, ...]
) -> None:
    ended = run_started(tmp_path, *FAULTY, *words, env=env)
    assert ended.code == 2
    assert all(number in ended.stderr for number in both)
    assert "Traceback" not in ended.stderr
    assert find_runs(tmp_path) == []
