"""Who speaks on the console, and who into a file."""

from __future__ import annotations

from pathlib import Path

from tests.faults.words import SMALL
from tests.runs import run_started


def test_rank_0_and_the_warnings_of_all(tmp_path: Path) -> None:
    ended = run_started(
        tmp_path,
        *SMALL,
        "model._target_=probe_faults.Talkative",
        "~model.width",
        "~model.layers",
        "steps=2",
        "log_every=1",
    ).completed()
    console = ended.stdout.splitlines()
    assert console.count("a print of the model") == 1
    assert console.count("an info line of the model") == 1
    assert console.count("[rank 1] WARNING: a warning of rank 1") == 1
    assert sum("UserWarning: a Python warning of rank 1" in line for line in console) == 1
    assert sum(line.startswith("step 1/2 ") for line in console) == 1
    assert sum(line.startswith("cell ") for line in console) == 1
    assert ended.stderr == ""
    for rank in (0, 1):
        log = ended.run.log(rank)
        assert log.count("a print of the model") == 1
        assert log.count("an info line of the model") == 1
    assert "a warning of rank 1" in ended.run.log(1)
    assert "a warning of rank 1" not in ended.run.log(0)
