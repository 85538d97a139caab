"""Where an attempt of a run goes on from."""

from __future__ import annotations

from pathlib import Path

from train.run_plan import Plan


def next_attempt(plan: Plan, folder: Path) -> tuple[Plan, int]:
    """The plan of a run's next attempt, and the step that it goes on from; 0 from the start."""
    return plan, 0
