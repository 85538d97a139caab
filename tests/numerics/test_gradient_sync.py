"""Gradients are averaged once a step, on its last micro-batch, however many there are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.parallel.ddp import DDP
from tests.gang import prepared, run

STEPS = 3


class MeanError:
    """The output itself as loss: the gradient of a weight is the mean of its inputs."""

    def count(self, targets: Tensor) -> int:
        return len(targets)

    def loss_sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.sum()

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Any]:
        return {}


class Weight(nn.Linear):
    objective = MeanError()

    def __init__(self) -> None:
        super().__init__(1, 1, bias=False)
        nn.init.zeros_(self.weight)


def count(ranks: Ranks, static_graph: bool) -> tuple[list[int], float]:
    """Averages of each step, and the weight after the first, moved against the gradient."""
    from tests.probes import probe_hooks

    hook = "tests.probes.probe_hooks.counting"
    strategy = DDP(comm_hook=hook, static_graph=static_graph)
    prepared(strategy, Weight(), ranks, clip_norm=None)
    inputs = [1.0, 2.0] if ranks.main else [3.0, 4.0]
    batches = [Batch(torch.tensor([[x]]), torch.zeros(1), 1) for x in inputs]
    counts, moved = [], 0.0
    for step in range(STEPS):
        before = probe_hooks.calls
        strategy.step(batches)
        counts.append(probe_hooks.calls - before)
        if step == 0:
            moved = float(strategy.plain.weight.detach())
    strategy.close()
    return counts, moved


def test_one_average_a_window() -> None:
    for counts, moved in run(count, 2, False):
        assert counts == [1, 1, 1]
        assert moved == -1.25  # lr 0.5 times the mean of 1, 2, 3 and 4


def test_a_static_graph_synchronises_its_first_micro_batch_too() -> None:
    for counts, moved in run(count, 2, True):
        assert counts == [2, 1, 1]
        assert moved == -1.25
