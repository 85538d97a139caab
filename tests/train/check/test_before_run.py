"""`cluster.check=true`: a check by a run's own ranks, which changes nothing in the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.words import SMALL
from tests.runs import Outcome, run_train

WORDS = (*SMALL, "steps=4", "log_every=1", "eval_every=2", "checkpoint=weights")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    """The same run with a check and without."""
    checked, plain = (
        run_train(tmp_path_factory.mktemp(f"check-{word}"), *WORDS, f"cluster.check={word}")
        for word in ("true", "false")
    )
    return checked.completed(), plain.completed()


def test_the_curve_is_the_same_to_the_last_bit(both: tuple[Outcome, Outcome]) -> None:
    checked, plain = both
    for name in ("train/loss", "train/grad_norm", "val/loss"):
        assert checked.run.column(name) == plain.run.column(name)
        assert len(plain.run.column(name)) >= 2


def test_what_was_measured_is_shown_and_kept(both: tuple[Outcome, Outcome]) -> None:
    checked, plain = both
    report = json.loads((checked.run.folder / "check.json").read_text())
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert [link["ranks"] for link in report["links"]] == [[0, 1]]
    assert report["cluster"]["backend"] == "gloo"
    assert "all numbers: check.json" in checked.stdout
    assert ("nothing odd" in checked.stdout) == (not report["odd"])
    assert not Path(plain.run.folder / "check.json").exists()
    assert "cluster.check" not in plain.stdout
