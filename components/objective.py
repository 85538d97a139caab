"""The contract between a model, its loss and its metrics.

A strategy calls `model(inputs)`, takes the outputs as fp32, and asks the
model's objective for *sums*: the loss summed over valid targets, and how many
there are. Who divides by what is the strategy's business, because only it
knows the global batch.

Any `nn.Module` works: one without an `objective` attribute is trained with
`CrossEntropy`. To bring another loss, give the module an attribute
`objective` that follows `Objective`, or choose one by `objective=...`, which
takes the place of the model's own.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

IGNORE = -100
"""Targets with this value carry no loss (PyTorch's own default `ignore_index`)."""


class Objective(Protocol):
    """What a strategy needs to know of a loss. `rows` are samples, all of them valid."""

    def count(self, targets: Tensor) -> Tensor | int:
        """The number of valid targets in (rows, ...) `targets`: the loss's normaliser."""
        ...

    def loss_sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss summed over valid targets, a scalar. Float outputs arrive as fp32."""
        ...

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Evaluation metrics besides the loss: name -> (sum, count), reduced over all ranks.

        The highest is the best, but for the names in an optional attribute `lower_is_better`.
        """
        ...


class CrossEntropy:
    """Cross-entropy over the last dimension of the outputs.

    outputs: (rows, ..., classes); targets: (rows, ...) integers, `IGNORE` to leave one out.

    Args:
        weight: a factor on the loss, as an auxiliary term has.
    """

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def count(self, targets: Tensor) -> Tensor:
        return torch.count_nonzero(targets != IGNORE)

    def loss_sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        classes = outputs.shape[-1]
        loss = F.cross_entropy(
            outputs.reshape(-1, classes), targets.reshape(-1), ignore_index=IGNORE, reduction="sum"
        )
        return loss if self.weight == 1.0 else loss * self.weight

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        valid = targets != IGNORE
        right = (outputs.argmax(-1) == targets) & valid
        return {"accuracy": (right.sum(), valid.sum())}


class MicroBatchMean(CrossEntropy):
    """The naive average: each micro-batch's own mean counts alike, whatever its number of targets.

    Wrong where those numbers differ: a target in a micro-batch with few of them weighs more, so
    that the result depends on how a global batch is cut. Here to be compared with.
    """

    def count(self, targets: Tensor) -> Tensor:
        return torch.ones((), dtype=torch.int64, device=targets.device)

    def loss_sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return super().loss_sum(outputs, targets) / super().count(targets).clamp(min=1)


class SquaredError:
    """Squared difference of outputs and targets, for regression.

    outputs, targets: (rows, ...) of equal shape, or outputs with one more dimension of size 1.
    """

    def count(self, targets: Tensor) -> int:
        return targets.numel()

    def loss_sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs.reshape(targets.shape), targets.float(), reduction="sum")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        return {}


def objective_of(model: nn.Module) -> Objective:
    """The model's own objective, or cross-entropy when it names none."""
    return getattr(model, "objective", None) or CrossEntropy()
