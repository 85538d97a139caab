"""The unit that a strategy computes on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(slots=True)
class Batch:
    """One micro-batch: the samples of one forward on one rank.

    Attributes:
        inputs: (rows, ...) what the model is called with.
        targets: (rows, ...) what its objective compares the outputs with.
        valid: the first `valid` rows count. The others are padding, there to
            keep shapes fixed and ranks in step; they carry no loss and no metric.
    """

    inputs: Tensor
    targets: Tensor
    valid: int

    @property
    def rows(self) -> int:
        """Rows in the tensors, padding included."""
        return self.inputs.shape[0]

    def to(self, device: torch.device) -> Batch:
        """The same micro-batch on `device` (itself when already there)."""
        if self.inputs.device == device:
            return self
        return Batch(
            self.inputs.to(device, non_blocking=True),
            self.targets.to(device, non_blocking=True),
            self.valid,
        )
