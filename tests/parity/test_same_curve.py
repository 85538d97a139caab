"""The same curve whatever the strategy, the number of ranks and the accumulation.

Losses and gradient norms of 50 fp32 steps agree to 1e-5 with those of one process at every
step. Under plain SGD a wrong gradient scale would show in the weights, so these agree too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from components.data.synthetic import Synthetic
from components.model.gpt import GPT
from components.scheduler import warmup_cosine
from tests.fit import Result, Task, fit_all
from tests.gang import ON_TWO, alone, run

STEPS = 50
BATCH = 24


def gpt(tied: bool = False) -> GPT:
    return GPT(
        vocab_size=17, seq_len=8, layers=2, heads=2, width=16, dropout=0.0, tied_embeddings=tied
    )


def tokens(masked: float = 0.0) -> Synthetic:
    return Synthetic(
        train_samples=250,
        val_samples=10,
        vocab_size=17,
        seq_len=8,
        masked_fraction=masked,
        epoch_end="partial" if masked else "drop",
    )


def schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(STEPS, 0.1, 0.1))


ADAMW = partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1, fused=True)
SGD = partial(torch.optim.SGD, lr=0.5)

PLAIN = Task(gpt, tokens, BATCH, STEPS, optimizer=SGD, schedule=schedule, eval_every=25)
# Epochs of 250 samples end in windows of 10: ranks have unequal numbers of valid rows, or none.
MASKED = PLAIN.but(data=partial(tokens, 0.3), clip_norm=0.5)
TASKS: dict[str, Task] = {
    "adamw": PLAIN.but(optimizer=ADAMW),
    "masked": MASKED,
    "accumulated": MASKED.but(accumulation=2, clip_norm=None),
    "tied": PLAIN.but(model=partial(gpt, True), clip_norm=1.0),
}
GANGS: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {
    2: (ON_TWO, tuple(TASKS)),
    3: (("ddp",), ("masked", "accumulated")),
    4: (("fsdp", "hsdp"), ("masked", "accumulated")),
}
CASES = [
    (size, strategy, task)
    for size, (strategies, tasks) in GANGS.items()
    for strategy in strategies
    for task in tasks
]
ACCUMULATED = ("adamw", "masked")


@pytest.fixture(scope="module")
def reference() -> dict[Any, Result]:
    return fit_all(alone(), ("single",), {w: t.but(accumulation=1) for w, t in TASKS.items()})


@pytest.fixture(scope="module")
def accumulated() -> dict[int, dict[Any, Result]]:
    return {
        n: fit_all(
            alone(), strategies, {word: TASKS[word].but(accumulation=n) for word in ACCUMULATED}
        )
        for n, strategies in {2: ("single", "dp"), 4: ("single",)}.items()
    }


@pytest.fixture(scope="module")
def gangs() -> dict[int, list[dict[Any, Result]]]:
    return {
        size: run(fit_all, size, strategies, {word: TASKS[word] for word in words})
        for size, (strategies, words) in GANGS.items()
    }


def assert_same(result: Result, expected: Result) -> None:
    assert len(result.losses) == STEPS
    for name in ("train/loss", "train/grad_norm", "val/loss", "val/accuracy"):
        assert result.column(name) == pytest.approx(expected.column(name), rel=1e-5), name
    assert result.column("lr") == expected.column("lr")


def assert_same_weights(result: Result, expected: Result) -> None:
    assert result.weights.keys() == expected.weights.keys()
    for name, weight in expected.weights.items():
        torch.testing.assert_close(result.weights[name], weight, rtol=1e-5, atol=2e-6, msg=name)


@pytest.mark.parametrize("task", TASKS)
def test_the_task_is_learnt_and_its_clip_bites(reference: dict[Any, Result], task: str) -> None:
    result = reference["single", task]
    assert result.losses[-1] < result.losses[0] - 0.3
    clip = TASKS[task].clip_norm
    assert clip is None or max(result.norms) > clip


@pytest.mark.parametrize(("size", "strategy", "task"), CASES)
def test_strategies_train_as_one_process(
    gangs: dict[int, list[dict[Any, Result]]],
    reference: dict[Any, Result],
    size: int,
    strategy: str,
    task: str,
) -> None:
    for results in gangs[size]:
        assert_same(results[strategy, task], reference["single", task])
    if TASKS[task].optimizer is SGD:
        assert_same_weights(gangs[size][0][strategy, task], reference["single", task])


@pytest.mark.parametrize("task", ACCUMULATED)
@pytest.mark.parametrize(("strategy", "accumulation"), [("single", 2), ("single", 4), ("dp", 2)])
def test_accumulation_changes_nothing(
    accumulated: dict[int, dict[Any, Result]],
    reference: dict[Any, Result],
    strategy: str,
    accumulation: int,
    task: str,
) -> None:
    result = accumulated[accumulation][strategy, task]
    assert_same(result, reference["single", task])
    if TASKS[task].optimizer is SGD:
        assert_same_weights(result, reference["single", task])


@pytest.mark.parametrize("strategy", ON_TWO)
def test_a_tied_weight_is_kept_under_both_names(
    gangs: dict[int, list[dict[Any, Result]]], strategy: str
) -> None:
    weights = gangs[2][0][strategy, "tied"].weights
    assert torch.equal(weights["stem.tokens.weight"], weights["head.projection.weight"])
