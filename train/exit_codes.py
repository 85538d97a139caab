"""Exit codes of the command beside those of signals."""

from __future__ import annotations

from components.cluster.preemption import PREEMPTED
from train.failure import Failure

DONE, FAILED, REFUSED = 0, 1, 2


def exit_code(first: Failure | None) -> int:
    """That of a run whose end this failure explains."""
    if first is None:
        return DONE
    return {"refused": REFUSED, "preempted": PREEMPTED}.get(first.kind, FAILED)
