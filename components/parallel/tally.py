"""An evaluation's sums, gathered where the outputs are."""

from __future__ import annotations

import torch
from torch import Tensor

from components.objective import Objective
from components.parallel.base import Sums


class Tally:
    """Adds up the loss and the objective's metrics over micro-batches, in float64.

    The sums stay on the device until `sums`, so that adding waits for nothing.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._totals: dict[str, tuple[Tensor, Tensor]] = {}

    def add(self, outputs: Tensor, targets: Tensor) -> None:
        """Add one micro-batch: its valid rows only, outputs as fp32. No rows add nothing."""
        if len(targets) == 0:
            return
        count = torch.as_tensor(self.objective.count(targets))
        parts = {"loss": (self.objective.loss_sum(outputs, targets), count)}
        parts.update(self.objective.metrics(outputs, targets))
        for name, (total, items) in parts.items():
            old_total, old_items = self._totals.get(name, (0.0, 0.0))
            self._totals[name] = (old_total + total.double(), old_items + items.double())

    def sums(self) -> Sums:
        """The sums so far, of this rank."""
        sums = Sums()
        for name, (total, items) in self._totals.items():
            sums.add(name, float(total), float(items))
        return sums
