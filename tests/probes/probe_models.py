"""Models whose right losses, gradients and weights can be worked out by hand.

All are stacks, so that a pipeline of two stages can cut them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from components.model.stack import Stack
from components.objective import IGNORE


class Sum:
    """The loss is the output itself, averaged over the targets that are not ignored."""

    def count(self, targets: Tensor) -> Tensor:
        return torch.count_nonzero(targets != IGNORE)

    def loss_sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # Not a product with a mask: an ignored inf would give nan.
        return outputs[targets != IGNORE].sum()

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        return {}


class Weighted(nn.Module):
    """Multiplies by one weight a feature, zero at the start."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.weight


class Line(Stack):
    """(rows, features) inputs to (rows,) outputs w.x: the gradient is the mean input."""

    def __init__(self, features: int = 1) -> None:
        super().__init__()
        self.stem = nn.Identity()
        self.blocks = nn.ModuleList([Weighted(features), nn.Identity()])
        self.head = Total()
        self.objective = Sum()


class Each(Stack):
    """(rows, time) inputs x to (rows, time) outputs w*x, with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Identity()
        self.blocks = nn.ModuleList([Weighted(1), nn.Identity()])
        self.head = nn.Identity()
        self.objective = Sum()


class Total(nn.Module):
    """(rows, features) to (rows,)."""

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden.sum(-1)


class Offset(Stack):
    """(rows, 1) inputs to the same numbers as (rows,) outputs, plus a weight that stays zero."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Identity()
        self.blocks = nn.ModuleList([Shift(), nn.Identity()])
        self.head = Total()
        self.objective = Sum()


class Shift(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.weight


class Logits(Stack):
    """(rows,) numbers to (rows, classes) logits, by a table of its own."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.stem = nn.Embedding.from_pretrained(table.clone(), freeze=False)
        self.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
        self.head = nn.Identity()


class Branches(nn.Module):
    """A perceptron with a branch that takes no part in the loss."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        self.a = nn.Linear(in_features, classes)
        self.b = nn.Linear(in_features, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.a(inputs)


class Plain(nn.Module):
    """A user's own module, which knows nothing of this project."""

    def __init__(self, in_features: int, classes: int, half: bool = False) -> None:
        super().__init__()
        self.up = nn.Linear(in_features, 24)
        self.drop = nn.Dropout(0.1)
        self.down = nn.Linear(24, classes)
        if half:
            self.down.half()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.down(self.drop(torch.relu(self.up(inputs))))
