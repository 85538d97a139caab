"""What an optimizer holds and needs, found out on a stand-in of some thousand elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from components.optimizer import build_optimizer
from train.plan.tracker import Tracker

EDGE = 64
"""Of the stand-in's matrix; its vector has as many elements."""


@dataclass(frozen=True)
class OptimizerCost:
    """Bytes of an optimizer by element that it updates.

    Attributes:
        matrix, vector: state of an element of a matrix, and of a tensor with one dimension.
        scalars: state of each tensor besides, as step counters.
        step: taken by an element while a step runs, and given back.
    """

    matrix: float
    vector: float
    scalars: float
    step: float

    def state_bytes(self, shapes: Iterable[tuple[int, int]]) -> int:
        """State for tensors of so many (elements, dimensions)."""
        return round(
            sum(n * (self.matrix if dims > 1 else self.vector) + self.scalars for n, dims in shapes)
        )

    def step_bytes(self, elements: int) -> int:
        """Taken by a step over so many elements, and given back."""
        return round(self.step * elements)


def cost_of(factory: Callable[..., Optimizer]) -> OptimizerCost:
    """Let the factory's optimizer take two steps, and look at what it holds.

    Args:
        factory: as in the config, its settings bound.
    """
    named = [
        ("matrix", nn.Parameter(torch.zeros(EDGE, EDGE))),
        ("vector", nn.Parameter(torch.zeros(EDGE * EDGE))),
    ]
    for _, p in named:
        p.grad = torch.ones_like(p)
    optimizer = build_optimizer(factory, named)
    optimizer.step()
    by_size: list[float] = []
    scalars = 0.0
    for _, p in named:
        state = [t for t in optimizer.state[p].values() if torch.is_tensor(t)]
        by_size.append(sum(t.nbytes for t in state if t.numel() > 1) / p.numel())
        scalars = sum(t.nbytes for t in state if t.numel() == 1)
    tracker = Tracker([])
    with tracker:
        optimizer.step()
    now = most = 0
    for kind, _, size in tracker.events:
        now += size if kind == "+" else -size
        most = max(most, now)
    elements = sum(p.numel() for _, p in named)
    # A few scalars are made by any step; only what grows with the model counts.
    step = most / elements if most >= elements else 0.0
    return OptimizerCost(by_size[0], by_size[1], scalars, step)
