"""A job that comes back again and again without progress."""

from __future__ import annotations

from typing import Any

import pytest

from train.slurm.stuck import stuck


def state(*steps: int, running: bool = False) -> dict[str, Any]:
    """A run whose attempts ended after so many steps; the last one may be under way."""
    history = [{"attempt": number, "steps": taken} for number, taken in enumerate(steps, 1)]
    if running:
        return {"status": "running", "attempts": len(steps) + 1, "steps": 0, "history": history}
    last = history.pop()
    return {
        "status": "preempted",
        "attempts": len(steps),
        "steps": last["steps"],
        "history": history,
    }


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ({}, 0),
        (state(0), 0),
        (state(0, 0), 0),
        (state(10, 20, 30, 40), 0),
        (state(10, 10, 10, 11), 0),
        (state(10, 10, 10), 0),  # the first of them took ten
        (state(0, 0, 0), 1),  # one of them was another job's
        (state(0, 0, running=True), 0),
    ],
)
def test_as_long_as_there_is_progress(given: dict[str, Any], before: int) -> None:
    assert stuck(given, before) is None


@pytest.mark.parametrize(
    ("given", "before", "step"),
    [
        (state(0, 0, 0), 0, 0),
        (state(10, 10, 10, 10), 0, 10),
        (state(10, 8, 9, 10), 0, 10),
        (state(5, 0, 0, 0), 1, 5),
        (state(0, 0, 0, running=True), 0, 0),
    ],
)
def test_three_attempts_in_vain_are_the_end(given: dict[str, Any], before: int, step: int) -> None:
    told = stuck(given, before)
    assert told is not None
    assert f"came no further than step {step}:" in told
