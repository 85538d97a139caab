from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from components.objective import (
    IGNORE,
    CrossEntropy,
    MicroBatchMean,
    SquaredError,
    objective_of,
)


def test_loss_of_large_logits_is_not_quantised() -> None:
    torch.manual_seed(0)
    logits = torch.randn(4, 1000) * 8
    targets = torch.tensor([1, 2, 3, 4])
    objective = CrossEntropy()
    mean = objective.loss_sum(logits, targets) / objective.count(targets)
    assert mean.item() == pytest.approx(34.64, abs=0.02)


def test_ignored_targets_carry_no_loss_count_or_metric() -> None:
    # softmax of (0, log 3) is (1/4, 3/4).
    outputs = torch.tensor([0.0, math.log(3)]).expand(1, 3, 2)
    targets = torch.tensor([[0, 1, IGNORE]])
    objective = CrossEntropy()
    assert objective.count(targets) == 2
    loss = objective.loss_sum(outputs, targets)
    assert loss.item() == pytest.approx(math.log(4) + math.log(4 / 3))
    right, total = objective.metrics(outputs, targets)["accuracy"]
    assert (right.item(), total.item()) == (1, 2)


def test_all_targets_ignored_is_a_loss_of_zero_that_can_be_differentiated() -> None:
    outputs = torch.randn(2, 3, requires_grad=True)
    loss = CrossEntropy().loss_sum(outputs, torch.full((2,), IGNORE))
    loss.backward()
    assert loss.item() == 0.0
    assert outputs.grad is not None
    assert outputs.grad.eq(0).all()


def test_a_model_brings_its_own_objective_or_gets_cross_entropy() -> None:
    model = nn.Linear(2, 2)
    assert isinstance(objective_of(model), CrossEntropy)
    own = CrossEntropy()
    model.objective = own  # type: ignore[assignment]
    assert objective_of(model) is own


def test_weight_multiplies_the_loss_alone() -> None:
    outputs, targets = torch.tensor([[0.0, 0.0]]), torch.tensor([1])
    assert CrossEntropy(weight=0.5).loss_sum(outputs, targets).item() == pytest.approx(
        math.log(2) / 2
    )
    assert int(CrossEntropy(weight=0.5).count(targets)) == 1


def test_micro_batch_means_weigh_alike_whatever_their_number_of_targets() -> None:
    naive, right = MicroBatchMean(), CrossEntropy()
    # Logits (0, 3): the loss of target 0 is softplus(3), that of target 1 softplus(-3).
    outputs = torch.tensor([[0.0, 3.0]]).expand(3, 2)
    parts = [torch.tensor([0, 0, 0]), torch.tensor([1, IGNORE, IGNORE])]
    low, high = math.log1p(math.exp(-3)), math.log1p(math.exp(3))
    sums = [float(naive.loss_sum(outputs, part)) for part in parts]
    counts = [int(naive.count(part)) for part in parts]
    assert sum(sums) / sum(counts) == pytest.approx((high + low) / 2)
    sums = [float(right.loss_sum(outputs, part)) for part in parts]
    counts = [int(right.count(part)) for part in parts]
    assert sum(sums) / sum(counts) == pytest.approx((3 * high + low) / 4)


def test_squared_error() -> None:
    outputs, targets = torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 1.0])
    assert float(SquaredError().loss_sum(outputs, targets)) == 5.0
    assert SquaredError().count(targets) == 2
