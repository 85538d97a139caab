"""A model that gives an objective nothing to work on is named, with what it returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from components.data.batch import Batch
from components.errors import ConfigError
from components.parallel.outputs import checked_outputs
from components.parallel.pipeline import Pipeline
from components.parallel.single import Single
from tests.components.parallel.pipeline_cases import LENGTH, Tiny
from tests.gang import alone, prepared

Change = Callable[[Tensor], Any]

UNFIT: list[tuple[Change, str]] = [
    (lambda y: (y, None), "a tuple of 2"),
    (lambda y: {"logits": y}, "a dict"),
    (lambda y: None, "None"),
    (lambda y: y.argmax(-1), r"a int64 tensor of shape \(3"),
    (lambda y: y[:2], r"a float32 tensor of shape \(2, "),
    (lambda y: y.sum(), r"a float32 tensor of shape \(\)"),
]


class Unfit(nn.Module):
    def __init__(self, change: Change) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 5)
        self.change = change

    def forward(self, inputs: Tensor) -> Any:
        return self.change(self.layer(inputs))


@pytest.fixture
def group_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_what_fits_is_given_back() -> None:
    outputs = torch.ones(3, 2, dtype=torch.bfloat16)
    assert checked_outputs(outputs, 3, nn.Identity()) is outputs


@pytest.mark.parametrize(("change", "said"), UNFIT)
def test_a_step_names_model_and_outputs(change: Change, said: str) -> None:
    strategy = prepared(Single(), Unfit(change), alone())
    batch = Batch(torch.ones(3, 4), torch.zeros(3, dtype=torch.int64), 3)
    with pytest.raises(ConfigError, match=rf"model Unfit returned {said}.* 3 rows"):
        strategy.step([batch])


@pytest.mark.parametrize(("change", "said"), UNFIT)
def test_so_does_a_pipelines_last_stage(group_of_one: None, change: Change, said: str) -> None:
    model = Tiny(blocks=1)
    model.head.forward = lambda hidden: change(hidden)  # type: ignore[method-assign]
    strategy = prepared(Pipeline(), model, alone())
    tokens = torch.zeros(3, LENGTH, dtype=torch.int64)
    with pytest.raises(ConfigError, match=rf"model Tiny returned {said}.* 3 rows"):
        strategy.step([Batch(tokens, tokens, 3)])
