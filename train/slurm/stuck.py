"""Whether a job that is put back into the queue again and again still makes progress."""

from __future__ import annotations

from typing import Any

TRIES = 3
"""Attempts in a row that may take no step; a run whose start is longer than its time has no end."""


def stuck(state: dict[str, Any], before: int) -> str | None:
    """Why there is to be no further attempt; None as long as there may be one.

    Args:
        state: the run's status.
        before: attempts that had been made when the job was submitted: they do not count.
    """
    taken = {entry["attempt"]: entry["steps"] for entry in state.get("history", [])}
    if state.get("status") not in (None, "running"):
        taken[state["attempts"]] = state["steps"]
    reached, vain = 0, list[int]()
    for attempt, steps in sorted(taken.items()):
        vain = [] if steps > reached else [*vain, attempt]
        reached = max(reached, steps)
    vain = [attempt for attempt in vain if attempt > before]
    if len(vain) < TRIES:
        return None
    return (
        f"{len(vain)} attempts in a row, the last is {vain[-1]}, came no further than step "
        f"{reached}: the job does not go back into the queue. Give it more time "
        "(hydra.launcher.time), or save more often (checkpoint.every_minutes)."
    )
