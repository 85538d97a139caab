"""Ends that a signal has ordered, as failures that explain what ranks say of their peers."""

from __future__ import annotations

import signal
import time

from components.cluster.preemption import Notice
from components.cluster.signals import WARNING
from train.failure import Failure, Kind

LAST_SAVED = "nothing is saved beyond the last checkpoint"


def at_once(signum: int, notice: Notice, rank: int | None = None) -> Failure:
    """All ranks were ended at once: by the user, or by a scheduler's last warning.

    Args:
        notice: what there was of warnings before this signal.
        rank: that of the process that got the signal; None for the controller.
    """
    name = signal.Signals(signum).name
    if signum not in WARNING:
        return _order(rank, "stopped", f"stopped by {name}")
    if notice.asked is None:
        return _order(rank, "preempted", f"stopped by {name} before training began")
    words = f"stopped by a second signal, {name} after {notice.asked.name}: {LAST_SAVED}"
    return _order(rank, "preempted", words)


def overdue(notice: Notice, grace_s: float, rank: int | None = None) -> Failure:
    """Ranks were ended because they had not heeded a warning in time."""
    assert notice.asked is not None
    return _order(
        rank,
        "preempted",
        f"stopped by {notice.asked.name}: the ranks did not reach the end of a step within "
        f"cluster.preempt_grace_s={grace_s:g} s, and {LAST_SAVED}",
    )


def _order(rank: int | None, kind: Kind, cause: str) -> Failure:
    return Failure(rank, kind, cause, time.time(), ordered=True)
