"""The batch script and the words of sbatch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from train.slurm.options import SlurmOptions
from train.slurm.script import sbatch_words, script_text


def test_the_script_names_its_folder_and_nothing_else(tmp_path: Path) -> None:
    assert script_text(SlurmOptions(setup=["module load cuda"]), tmp_path).splitlines() == [
        "#!/bin/bash",
        "# jobs.json, beside this file, says which run this is: by the index in the array.",
        "module load cuda",
        f"exec {sys.executable} -m train.slurm.batch {tmp_path}",
    ]


def test_a_folder_with_any_name_is_one_word_of_the_script(tmp_path: Path) -> None:
    place = tmp_path / "a b'; $(touch pwned) \"&"
    text = script_text(SlurmOptions(), place).replace("exec ", "printf '%s\\n' ")
    said = subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout.splitlines()[-1] == str(place)
    assert not (tmp_path / "pwned").exists()


def test_little_is_asked_for_where_little_is_said(tmp_path: Path) -> None:
    words = sbatch_words(SlurmOptions(), tmp_path, "1_a b", nodes=2, jobs=None)
    assert words == [
        "sbatch",
        "--parsable",
        "--job-name=1_a-b",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--signal=B:USR1@120",
        "--requeue",
        f"--output={tmp_path}/0.log",
        "--open-mode=append",
        f"--chdir={Path.cwd()}",
        f"{tmp_path}/job.sh",
    ]


def test_everything_that_can_be_asked_for() -> None:
    options = SlurmOptions(
        partition="gpu",
        account="me",
        qos="long",
        time="1-00:00:00",
        cpus=32,
        memory="64G",
        gpus="a100:8",
        parallel=4,
        grace_s=0,
        requeue=False,
        sbatch={"constraint": "a&b", "exclusive": True, "nice": 100, "mail-user": None},
    )
    words = sbatch_words(options, Path("/a%b"), "x", nodes=1, jobs=3)
    assert "--array=0-2%4" in words
    assert "--output=/a%%b/%a.log" in words  # a % of one's own is no pattern
    for word in ("partition=gpu", "account=me", "qos=long", "time=1-00:00:00", "mem=64G"):
        assert f"--{word}" in words
    for word in ("cpus-per-task=32", "gpus-per-node=a100:8", "no-requeue", "exclusive"):
        assert f"--{word}" in words
    assert "--constraint=a&b" in words
    assert "--nice=100" in words
    assert not any("mail-user" in word or "signal" in word for word in words)
