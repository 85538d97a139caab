"""What an optimizer holds and needs, found out on a stand-in of some thousand elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from components.optimizer import build_optimizer
from train.plan.tracker import Tracker

EDGE = 64
"""Of the stand-in's matrix; its vector has half as many elements."""

Shapes = Sequence[tuple[int, int]]
"""Of each tensor that an optimizer updates: (elements, dimensions)."""


@dataclass(frozen=True)
class OptimizerCost:
    """Bytes of an optimizer by element that it updates.

    Attributes:
        matrix, vector: state of an element of a matrix, and of a tensor with one dimension.
        scalars: state of each tensor besides, as step counters.
        step: taken by an element while a step runs, and given back.
        at_once: whether all tensors of a decay group take that at a time; else one after the other.
    """

    matrix: float
    vector: float
    scalars: float
    step: float
    at_once: bool

    def state_bytes(self, shapes: Shapes) -> int:
        """State for these tensors."""
        return round(
            sum(n * (self.matrix if dims > 1 else self.vector) + self.scalars for n, dims in shapes)
        )

    def step_bytes(self, shapes: Shapes) -> int:
        """Taken by a step over these tensors, and given back."""
        groups = [[n for n, d in shapes if (d > 1) is decays] for decays in (True, False)]
        largest = [sum(some) if self.at_once else max(some, default=0) for some in groups]
        return round(self.step * max(largest))


def cost_of(factory: Callable[..., Optimizer], gpu: bool = False) -> OptimizerCost:
    """Let the factory's optimizer take steps, and look at what it holds.

    Args:
        factory: as in the config, its settings bound.
        gpu: whether it runs on a GPU, where torch's optimizers take all tensors at once unless
            they are told otherwise.
    """
    matrix = ("matrix", nn.Parameter(torch.zeros(EDGE, EDGE)))
    vector = ("vector", nn.Parameter(torch.zeros(EDGE * EDGE // 2)))
    optimizer = _stepped(factory, [matrix, vector], gpu)
    by_size: list[float] = []
    scalars = 0.0
    for _, p in (matrix, vector):
        state = [t for t in optimizer.state[p].values() if torch.is_tensor(t)]
        by_size.append(sum(t.nbytes for t in state if t.numel() > 1) / p.numel())
        scalars = sum(t.nbytes for t in state if t.numel() == 1)
    second = ("second", nn.Parameter(torch.zeros(EDGE, EDGE // 2)))
    both, alone = (_taken(_stepped(factory, some, gpu)) for some in ([matrix, second], [matrix]))
    # A few scalars are made by any step; only what grows with the model counts.
    step = alone / matrix[1].numel() if alone >= matrix[1].numel() else 0.0
    return OptimizerCost(by_size[0], by_size[1], scalars, step, at_once=both > 1.25 * alone)


def _stepped(
    factory: Callable[..., Optimizer], named: list[tuple[str, nn.Parameter]], gpu: bool
) -> Optimizer:
    for _, p in named:
        p.grad = torch.ones_like(p)
    optimizer = build_optimizer(factory, named)
    for group in optimizer.param_groups if gpu else []:
        if group.get("foreach", True) is None and not group.get("fused"):
            group["foreach"] = True
    optimizer.step()
    return optimizer


def _taken(optimizer: Optimizer) -> int:
    """Bytes that a step makes and gives back, at the most."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    state = [t for of in optimizer.state.values() for t in of.values() if torch.is_tensor(t)]
    # What changes in place is no new tensor.
    tracker = Tracker([*params, *(p.grad for p in params), *state])
    with tracker:
        optimizer.step()
    now = most = 0
    for kind, _, size in tracker.events:
        now += size if kind == "+" else -size
        most = max(most, now)
    return most
