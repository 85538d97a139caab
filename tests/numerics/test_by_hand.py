"""Losses, gradients and weights that can be worked out by hand, under every strategy.

The model is w*x with w = 0 and the loss its output, so the gradient is the mean input, and
after one step of SGD with a learning rate of 1 the weight is minus that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from components.objective import IGNORE
from tests.fit import Result, Task, fit, fit_all, plain_sgd
from tests.gang import BF16, ON_TWO, alone, run
from tests.probes.probe_data import Given, Numbers
from tests.probes.probe_models import Each, Line, Logits, Offset, Sum

WEIGHT = "blocks.0.weight"


class NamedByBatch(Sum):
    """A metric named by the batch's target: `acc` of 0.5 for 1, `f1` of 0.9 for 2."""

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        found = {}
        for target, name, value in ((1, "acc", 0.5), (2, "f1", 0.9)):
            rows = (targets == target).sum()
            if rows:
                found[name] = (rows * value, rows)
        return found


def named_by_batch() -> Offset:
    model = Offset()
    model.objective = NamedByBatch()
    return model


def unequal_tokens() -> Given:
    """The first rank has three targets, the second one: the others carry no loss."""
    inputs = torch.tensor([[1.0, 1.0, 1.0], [5.0, 70.0, 90.0]])
    return Given(inputs, torch.tensor([[0, 0, 0], [0, IGNORE, IGNORE]]))


def two_metrics() -> Given:
    return Given(torch.tensor([[1.0], [3.0]]), torch.tensor([1, 2]))


def large_logits() -> Logits:
    return Logits(torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)) * 8)


def four_labels() -> Given:
    return Given(torch.arange(4), torch.tensor([1, 2, 3, 4]))


def linear_decay(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=6)


def numbers(*values: float, **options: Any) -> Callable[[], Numbers]:
    return partial(Numbers, list(values), **options)


STANDING = partial(torch.optim.SGD, lr=0.0)
TASKS: dict[str, Task] = {
    "unequal tokens": Task(Each, unequal_tokens, global_batch=2, steps=1),
    # Micro-batch m of rank r is sample 2m + r: the first rank sees 1 and 2, the second 3 and 4.
    "accumulated": Task(Line, numbers(1, 3, 2, 4), global_batch=4, steps=1, accumulation=2),
    "rank losses": Task(Offset, numbers(1, 3, 1, 3), global_batch=4, steps=1, accumulation=2),
    "partial window": Task(
        Line, numbers(1, 2, 3, 4, 5, epoch_end="partial"), global_batch=2, steps=3
    ),
    "dropped window": Task(Line, numbers(1, 2, 3, 4, 5), global_batch=2, steps=2),
    "schedule": Task(
        Line,
        numbers(*[1.0] * 8),
        global_batch=8,
        steps=6,
        accumulation=4,
        optimizer=partial(torch.optim.SGD, lr=0.6),
        schedule=linear_decay,
    ),
    "evaluation": Task(
        Offset,
        numbers(*[1.0] * 256, val=[0.7] * 256 + [0.8] * 256 + [0.9] * 10),
        global_batch=256,
        steps=1,
        optimizer=STANDING,
    ),
    "metrics by batch": Task(
        named_by_batch, two_metrics, global_batch=2, steps=1, optimizer=STANDING
    ),
    "logits": Task(
        large_logits, four_labels, global_batch=4, steps=1, precision=BF16, optimizer=STANDING
    ),
}
EVERY = ("single", "dp", *ON_TWO)


@pytest.fixture(scope="module")
def results() -> dict[str, list[dict[Any, Result]]]:
    """By strategy, the results of its ranks."""
    # A pipeline of two stages needs two micro-batches, whatever the size of the last window.
    on_one = fit_all(alone(), ("single", "dp"), TASKS)
    on_two = run(fit_all, 2, ON_TWO, TASKS)
    return {name: [on_one] if name in ("single", "dp") else on_two for name in EVERY}


def each_rank(results: dict[str, list[dict[Any, Result]]], name: str, task: str) -> list[Result]:
    return [by_rank[name, task] for by_rank in results[name]]


every = pytest.mark.parametrize("name", EVERY)


@every
def test_each_token_weighs_the_same_on_every_rank(results: Any, name: str) -> None:
    # (1 + 1 + 1 + 5) / 4; the mean of the ranks' means would be 3.
    for result in each_rank(results, name, "unequal tokens"):
        assert result.norms == [2.0]
        assert result.losses == [0.0]
    assert results[name][0][name, "unequal tokens"].weights[WEIGHT].tolist() == [-2.0]


@every
def test_gradients_meet_on_the_last_micro_batch(results: Any, name: str) -> None:
    ranks = each_rank(results, name, "accumulated")
    for result in ranks:
        assert result.norms == [2.5]
    if name == "ddp":
        assert [result.own[0].tolist() for result in ranks] == [[-2.5], [-2.5]]
    assert ranks[0].weights[WEIGHT].tolist() == [-2.5]


@every
def test_the_logged_loss_is_that_of_all_ranks(results: Any, name: str) -> None:
    for result in each_rank(results, name, "rank losses"):
        assert result.losses == [2.0]


@every
def test_a_partial_window_is_divided_by_what_is_in_it(results: Any, name: str) -> None:
    for result in each_rank(results, name, "partial window"):
        assert result.norms == [1.5, 3.5, 5.0]
        assert result.updates == 3
    assert results[name][0][name, "partial window"].weights[WEIGHT].tolist() == [-10.0]


@every
def test_a_dropped_window_leaves_no_gradient_behind(results: Any, name: str) -> None:
    for result in each_rank(results, name, "dropped window"):
        assert result.norms == [1.5, 3.5]
    assert results[name][0][name, "dropped window"].weights[WEIGHT].tolist() == [-5.0]


@every
def test_the_schedule_counts_updates(results: Any, name: str) -> None:
    """Not ranks, nor micro-batches. Six updates with .6, .5, ... .1 move the weight by 2.1."""
    for result in each_rank(results, name, "schedule"):
        assert result.column("lr") == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], abs=1e-12)
    weight = results[name][0][name, "schedule"].weights[WEIGHT].item()
    assert weight == pytest.approx(-2.1, rel=1e-6)


@every
def test_evaluation_weighs_samples_alike(results: Any, name: str) -> None:
    """0.7 in a batch of 256, 0.8 in another, 0.9 in one of 10: the mean of means would be 0.8."""
    for result in each_rank(results, name, "evaluation"):
        assert result.column("val/loss") == pytest.approx([393.0 / 522], rel=1e-6)


@every
def test_metrics_are_joined_by_name(results: Any, name: str) -> None:
    """Each rank sees one of two names; joined by order both would be 0.7."""
    for result in each_rank(results, name, "metrics by batch"):
        assert result.column("val/loss") == [2.0]
        assert result.column("val/acc") == pytest.approx([0.5])
        assert result.column("val/f1") == pytest.approx([0.9])


@every
def test_the_loss_of_half_logits_is_taken_in_fp32(results: Any, name: str) -> None:
    """In bf16 the loss could only be 34.5 or 34.75."""
    for result in each_rank(results, name, "logits"):
        assert result.losses == pytest.approx([34.6407], abs=0.02)
        assert result.column("val/loss") == pytest.approx([34.6407], abs=0.02)


def test_a_mean_over_600_steps_does_not_stop_at_256() -> None:
    """As a running sum of ones in bf16 does."""
    task = Task(
        Offset,
        numbers(1, 1),
        global_batch=2,
        steps=600,
        precision=BF16,
        log_every=600,
        optimizer=STANDING,
    )
    assert fit(alone(), "single", task).losses == [1.0]


def test_the_log_tells_of_dropped_samples(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fit(alone(), "single", TASKS["dropped window"].but(optimizer=plain_sgd))
    assert "1 of 5 samples unused per epoch" in caplog.text
