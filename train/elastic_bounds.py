"""How often an elastic run is tried again: as long as it comes further, and not for ever."""

from __future__ import annotations


class Bounds:
    """What has ended the attempts so far, each with the step that had been taken.

    Args:
        max_restarts: how many failures of ranks are followed by another attempt.
    """

    def __init__(self, max_restarts: int) -> None:
        self._left = max_restarts
        self._crashed: int | None = None
        self._lost: dict[int, int] = {}

    def after_failure(self, step: int) -> str | None:
        """Why ranks that failed are not started again; None when they are. Counted."""
        if self._crashed is not None and step <= self._crashed:
            return f"not tried again: an earlier attempt failed after step {self._crashed} too"
        if self._left == 0:
            return ""
        self._left -= 1
        self._crashed = step
        return None

    def after_loss(self, node_rank: int, step: int) -> str | None:
        """Why a node that was lost may not come again; None when it may. Noted.

        Whatever in the run or in the node ends it would end it again and again.
        """
        before = self._lost.get(node_rank)
        if before is not None and step <= before:
            return f"was lost twice by step {before}, and is not taken in again"
        self._lost[node_rank] = step
        return None
