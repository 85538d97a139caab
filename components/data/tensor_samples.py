"""Samples held in memory as two tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from components.data.base import Pair


class TensorSamples:
    """Rows of (samples, ...) inputs and targets."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs = inputs
        self.targets = targets
        # The same memory. For a few rows, NumPy gathers in half the time.
        self._arrays = inputs.numpy(), targets.numpy()

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Pair:
        return self.inputs[index], self.targets[index]

    def get_batch(self, indices: list[int]) -> Pair:
        """(rows, ...) inputs and targets."""
        rows = np.array(indices)
        inputs, targets = (torch.from_numpy(array.take(rows, 0)) for array in self._arrays)
        return inputs, targets
