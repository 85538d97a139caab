"""What is submitted, and what of it is still alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.train.slurm.fake import FakeSlurm
from tests.train.sweep.jobs import ended
from train import status
from train.slurm import queue
from train.slurm.options import SlurmOptions
from train.slurm.submission import alive, read, submit


def test_what_was_submitted_is_found_again(tmp_path: Path, fake: FakeSlurm) -> None:
    ended(tmp_path / "1_b", "failed", "why")
    folders = [tmp_path / "0_a", tmp_path / "1_b"]
    one = submit(tmp_path, folders, SlurmOptions(), nodes=2, array=True)
    assert one.place == tmp_path / "slurm" / "1"
    assert (one.job, one.element(1), one.folder(1)) == ("77", "77_1", folders[1])
    assert read(one.place) == one
    assert (one.runs[0].attempts, one.runs[0].ended) == (0, None)
    assert (one.runs[1].attempts, one.runs[1].ended) == (1, status.read(folders[1])["ended"])

    fake.answers("sbatch", "78;cluster\n")
    again = submit(tmp_path, folders[:1], SlurmOptions(), nodes=2, array=True)
    assert (again.place.name, again.job) == ("2", "78")
    fake.answers("squeue", "77_0|FAILED|None\n77_1|PENDING|Priority\n78_0|RUNNING|None\n")
    found = alive(tmp_path)
    assert {folder.name: s.element(index) for folder, (s, index) in found.items()} == {
        "1_b": "77_1",
        "0_a": "78_0",
    }


def test_a_single_run_is_no_array(tmp_path: Path, fake: FakeSlurm) -> None:
    one = submit(tmp_path, [tmp_path], SlurmOptions(), nodes=1, array=False)
    assert (one.element(0), one.folder(0)) == ("77", tmp_path)
    (told,) = fake.told("sbatch")
    assert not any(word.startswith("--array") for word in told)


def test_slurm_s_refusal_is_told(tmp_path: Path, fake: FakeSlurm) -> None:
    fake.answers("sbatch", "sbatch: error: invalid partition specified: gpu\n", code=1)
    with pytest.raises(ConfigError, match=r"did not take the job: .*invalid partition specified"):
        submit(tmp_path, [tmp_path], SlurmOptions(), nodes=1, array=False)
    assert alive(tmp_path) == {}


def test_jobs_that_slurm_has_forgotten_are_not_alive(tmp_path: Path, fake: FakeSlurm) -> None:
    submit(tmp_path, [tmp_path], SlurmOptions(), nodes=1, array=False)
    fake.answers("squeue", "slurm_load_jobs error: Invalid job id specified\n", code=1)
    assert alive(tmp_path) == {}
    fake.answers("squeue", "Unable to contact slurm controller\n", code=1)
    with pytest.raises(queue.Unanswered, match="Unable to contact"):
        alive(tmp_path)


def test_a_job_s_variables_are_not_handed_to_the_next(
    tmp_path: Path, fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "8")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    fake.script("sbatch", "#!/bin/sh\nenv | grep ^SLURM_ >&2; exit 1\n")
    with pytest.raises(queue.Unanswered) as said:
        queue._run(["sbatch"])
    assert "SLURM_CONF=/etc/slurm.conf" in str(said.value)
    assert "NTASKS" not in str(said.value)


def test_without_slurm_s_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="there is no sbatch, squeue, scancel"):
        queue.check_there()
