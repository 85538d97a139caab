"""Last and best of each metric, gathered from the records as they are written."""

from __future__ import annotations

import math
from typing import Any

METRICS = ("train/", "val/")
WITHOUT_BEST = ("train/grad_norm", "val/time_s")


class Summary:
    """Takes every record of a run."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}
        self.lowest: dict[str, dict[str, float]] = {}
        self.highest: dict[str, dict[str, float]] = {}

    def add(self, record: dict[str, Any]) -> None:
        """Take one record of metrics.jsonl."""
        for name, value in record.items():
            if not name.startswith(METRICS) or value is None or not math.isfinite(value):
                continue
            self.last[name] = value
            entry = {"value": value, "step": record["step"]}
            if name not in self.lowest or value < self.lowest[name]["value"]:
                self.lowest[name] = entry
            if name not in self.highest or value > self.highest[name]["value"]:
                self.highest[name] = entry

    def state(self) -> dict[str, Any]:
        """All of it as plain numbers."""
        return {"last": self.last, "lowest": self.lowest, "highest": self.highest}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.last, self.lowest, self.highest = (state[k] for k in ("last", "lowest", "highest"))

    def metrics(self, higher_is_better: set[str]) -> dict[str, Any]:
        """`last` and `best` by metric; best is the lowest unless the metric is named."""
        best = {
            name: (self.highest if name in higher_is_better else self.lowest)[name]
            for name in self.last
            if name not in WITHOUT_BEST
        }
        return {"last": self.last, "best": best}
