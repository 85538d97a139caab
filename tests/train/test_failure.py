"""What a rank leaves of its failure in the run's folder."""

from __future__ import annotations

from pathlib import Path

from train import failure, last_words, status


def test_a_rank_of_an_attempt_that_is_over_leaves_nothing(tmp_path: Path) -> None:
    """The rank of its number is somebody else by then."""
    status.claim(tmp_path)
    status.reopen(tmp_path, {"kind": "killed", "cause": "node 1 (b) is gone without a word"})
    late = failure.record(tmp_path, 1, ValueError("late"), step=3, attempt=1)
    assert (late.cause, late.step) == ("ValueError: late", 3)
    assert last_words.told(tmp_path, [1], []) == []
    failure.record(tmp_path, 1, ValueError("mine"), attempt=2)
    assert [one.cause for one in last_words.told(tmp_path, [1], [])] == ["ValueError: mine"]
    status.finish(tmp_path, "failed", attempt=2)
