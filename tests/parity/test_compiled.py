"""Compiled blocks train as plain ones do, under every strategy that takes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from components.model.compiled import compile_blocks
from components.model.gpt import GPT
from components.parallel.activation_checkpointing import Mode, checkpoint_blocks
from tests.fit import Result, Task, fit_all
from tests.gang import BF16, ON_TWO, run
from tests.parity.test_same_curve import PLAIN, gpt

STRATEGIES = tuple(word for word in ON_TWO if word != "zero3")
FEW = PLAIN.but(steps=4, eval_every=2)


def compiled(mode: Mode) -> GPT:
    model = gpt()
    compile_blocks(model)
    checkpoint_blocks(model, mode)
    return model


TASKS: dict[str, Task] = {
    "fp32": FEW,
    "fp32 compiled": FEW.but(model=partial(compiled, "none")),
    "bf16": FEW.but(precision=BF16),
    "bf16 compiled": FEW.but(precision=BF16, model=partial(compiled, "full")),
}


def plain_and_compiled(ranks: Any, strategies: tuple[str, ...]) -> Any:
    """In a process of its own: what is traced and differentiated is not compiled to C++ here."""
    torch.compile = partial(torch.compile, backend="aot_eager")
    return fit_all(ranks, strategies, TASKS)


@pytest.fixture(scope="module")
def results() -> dict[Any, Result]:
    return run(plain_and_compiled, 2, STRATEGIES)[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_curve(results: dict[Any, Result], strategy: str, precision: str) -> None:
    plain = results[strategy, precision]
    other = results[strategy, f"{precision} compiled"]
    assert len(other.losses) == 4
    for name in ("train/loss", "train/grad_norm", "val/loss"):
        assert other.column(name) == pytest.approx(plain.column(name), rel=1e-6), name
