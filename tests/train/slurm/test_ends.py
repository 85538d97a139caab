"""Runs whose jobs have ended without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.sweep.jobs import ended
from train import status
from train.slurm import ends
from train.slurm.queue import Standing
from train.slurm.submission import Submission, Waiting


def submission(base: Path, *runs: Waiting) -> Submission:
    """Submitted as job 77."""
    place = base / "slurm" / "1"
    place.mkdir(parents=True, exist_ok=True)
    return Submission(place, list(runs), True, 1, True, [], "77")


@pytest.mark.parametrize(
    ("state", "begun", "kind", "said"),
    [
        ("CANCELLED", False, "preempted", "CANCELLED, before the run began"),
        ("CANCELLED", True, "preempted", "CANCELLED, before the run had saved"),
        ("TIMEOUT", True, "preempted", "TIMEOUT, before the run had saved"),
        ("PREEMPTED", True, "preempted", "PREEMPTED, before the run had saved"),
        ("OUT_OF_MEMORY", True, "out_of_memory", "raise hydra.launcher.memory"),
        ("NODE_FAIL", True, "killed", "a node failed"),
        ("COMPLETED", True, "killed", "gone without a word"),
        ("FAILED", False, "error", "said last: no module named train"),
    ],
)
def test_what_slurm_says(tmp_path: Path, state: str, begun: bool, kind: str, said: str) -> None:
    one = submission(tmp_path, Waiting("0_job"))
    if begun:
        status.claim(one.folder(0))
    one.log(0).write_text("hello\nno module named train\n\n")
    found, cause = ends.explain(one, 0, Standing(state, "None"))
    assert found == kind
    assert said in cause
    assert "77_0" in cause
    ends.record(one.folder(0), found, cause)
    run = status.read(one.folder(0))
    assert run["status"] == ("preempted" if kind == "preempted" else "failed")
    assert (run["error"]["kind"], run["error"]["cause"]) == (kind, cause)
    assert run["attempts"] == 1


def test_a_job_that_slurm_has_forgotten(tmp_path: Path) -> None:
    one = submission(tmp_path, Waiting("0_job"))
    kind, cause = ends.explain(one, 0, None)
    assert (kind, "knows job 77_0 no more" in cause) == ("killed", True)


def test_an_attempt_that_never_began_counts_after_one_that_ended(tmp_path: Path) -> None:
    folder = tmp_path / "0_job"
    ended(folder, "failed", "the first cause")
    before = status.read(folder)
    one = submission(tmp_path, Waiting("0_job", 1, before["ended"]))
    assert not ends.told(folder, before["ended"])
    ends.record(folder, *ends.explain(one, 0, Standing("CANCELLED", "None")))
    run = status.read(folder)
    assert (run["status"], run["attempts"]) == ("preempted", 2)
    assert run["history"][0]["cause"] == "the first cause"
    assert ends.told(folder, before["ended"])
