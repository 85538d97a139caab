"""The loss scale of fp16: unscale once, before clipping; one decision for all ranks."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from components.cluster.ranks import Ranks
from components.data.synthetic import Synthetic
from components.model.gpt import GPT
from components.parallel.base import Parallel
from tests.fit import Result, Task, fit, fit_all
from tests.gang import FP16, FP32, ON_TWO, alone, run
from tests.probes.probe_data import Given, Numbers
from tests.probes.probe_models import Line
from train.divergence import Diverged

WEIGHT = "blocks.0.weight"
EVERY = ("single", "dp", *ON_TWO)
HALF_GRADIENTS = ("fsdp", "zero1", "zero2", "zero3")
"""These compute with half copies of the parameters, whose gradients are half as well."""

START = replace(FP16, init_scale=65536.0)


def three_four() -> Given:
    return Given(torch.tensor([[3.0, 4.0], [3.0, 4.0]]), torch.zeros(2))


def one_infinity() -> Numbers:
    return Numbers(["inf", "inf", *[0.25] * 6])


def halving(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)


def gpt() -> GPT:
    return GPT(vocab_size=17, seq_len=8, layers=2, heads=2, width=16, dropout=0.0)


def ten_samples() -> Synthetic:
    return Synthetic(train_samples=10, val_samples=0, vocab_size=17, seq_len=8, epoch_end="partial")


# Windows of 4, 4 and 2 samples: five micro-batches of 2, two to a step, three epochs.
EPOCHS = Task(
    gpt,
    ten_samples,
    global_batch=4,
    steps=9,
    accumulation=2,
    optimizer=partial(torch.optim.SGD, lr=0.1),
    clip_norm=1.0,
)
CLIP = Task(partial(Line, 2), three_four, 2, steps=1, clip_norm=1.0, precision=FP16)
TASKS: dict[str, Task] = {
    "clip": CLIP,
    "clip from 65536": CLIP.but(precision=START),
    "infinity": Task(Line, one_infinity, 2, steps=4, schedule=halving, precision=START),
    "epochs fp16": EPOCHS.but(precision=FP16),
    "epochs fp32": EPOCHS.but(precision=FP32),
}
SPOILT = Task(gpt, ten_samples, 8, steps=1, accumulation=2, clip_norm=1.0, precision=FP16)


def on_each(ranks: Ranks, names: tuple[str, ...]) -> dict[Any, Any]:
    return fit_all(ranks, names, TASKS) | {
        (name, "spoilt"): spoilt(ranks, name)
        for name in names
        if not name.startswith("zero")  # spoilt in the forward: see the tests of ZeRO itself
    }


def spoilt(ranks: Ranks, name: str) -> Result:
    """One step, before whose update an inf is put into the first rank's gradients alone."""

    def spoil(strategy: Parallel) -> None:
        update = strategy.update  # type: ignore[attr-defined]
        take = update.apply

        def apply(*args: Any) -> Any:
            if ranks.rank == 0:
                grads = [p.grad for p in update.params if p.grad is not None and p.grad.numel()]
                grads[0].view(-1)[0] = math.inf
            return take(*args)

        update.apply = apply

    return fit(ranks, name, SPOILT, before=spoil)


def hybrid(ranks: Ranks) -> Result:
    return spoilt(ranks, "hsdp")


@pytest.fixture(scope="module")
def results() -> dict[str, list[dict[Any, Result]]]:
    """By strategy, the results of its ranks."""
    on_one = on_each(alone(), ("single", "dp"))
    on_two = run(on_each, 2, ON_TWO)
    return {name: [on_one] if name in ("single", "dp") else on_two for name in EVERY}


@pytest.mark.parametrize("name", EVERY)
def test_the_true_norm_is_clipped(results: Any, name: str) -> None:
    """Clipped while scaled, the weights would be 1024 times too small."""
    for by_rank in results[name]:
        assert by_rank[name, "clip"].norms == [5.0]
    weights = results[name][0][name, "clip"].weights[WEIGHT].tolist()
    assert weights == pytest.approx([-0.6, -0.8], rel=1e-6)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in HALF_GRADIENTS])
def test_a_scale_of_65536_is_undone_before_clipping(results: Any, name: str) -> None:
    result = results[name][0][name, "clip from 65536"]
    assert result.norms == [5.0]
    assert result.weights[WEIGHT].tolist() == pytest.approx([-0.6, -0.8], rel=1e-6)


@pytest.mark.parametrize("name", HALF_GRADIENTS)
def test_half_gradients_beyond_65504_are_an_overflow(results: Any, name: str) -> None:
    """3 x 65536 is no finite half: the step is skipped, nothing wrong is taken for a gradient."""
    result = results[name][0][name, "clip from 65536"]
    assert result.updates == 0
    assert result.column("loss_scale") == [32768.0]
    assert result.weights[WEIGHT].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", EVERY)
def test_a_skipped_step_moves_the_scale_and_not_the_schedule(results: Any, name: str) -> None:
    for by_rank in results[name]:
        result = by_rank[name, "infinity"]
        assert result.column("loss_scale") == [32768.0] * 4
        assert result.column("lr") == [1.0, 0.5, 0.25, 0.125]
        assert result.column("skipped_steps") == [1] * 4
        assert result.updates == 3
        assert result.losses[0] is None
    # The three updates took learning rates of 1, 1/2 and 1/4.
    assert results[name][0][name, "infinity"].weights[WEIGHT].tolist() == [-0.25 * 1.75]


@pytest.mark.parametrize("name", EVERY)
def test_partial_windows_are_unscaled_and_clipped_once(results: Any, name: str) -> None:
    for by_rank in results[name]:
        half, full = by_rank[name, "epochs fp16"], by_rank[name, "epochs fp32"]
        assert half.updates == full.updates == 9
        assert half.norms == pytest.approx(full.norms, rel=1e-3, abs=1e-3)
        assert min(full.norms) > 0.5


def assert_all_skip(ranks: list[Result]) -> None:
    for result in ranks:
        assert result.updates == 0
        assert result.column("loss_scale") == [512.0]
    assert not math.isfinite(ranks[0].norms[0])
    for weight, start in zip(ranks[0].weights.items(), ranks[0].start.items(), strict=True):
        assert torch.equal(weight[1], start[1]), weight[0]


@pytest.mark.parametrize("name", ["ddp", "fsdp", "pipeline"])
def test_all_ranks_skip_what_one_cannot_take(results: Any, name: str) -> None:
    assert_all_skip([by_rank[name, "spoilt"] for by_rank in results[name]])


def test_replicas_of_shards_skip_together() -> None:
    assert_all_skip(run(hybrid, 4))


def test_a_run_that_only_skips_ends() -> None:
    task = Task(Line, partial(Numbers, ["inf", "inf"]), 2, steps=50, precision=FP16, max_skips=10)
    with pytest.raises(Diverged, match=r"10 steps in a row .* 512 -> 256 -> .* -> 1\b"):
        fit(alone(), "single", task)
