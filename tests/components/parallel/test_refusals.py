"""Settings and parameters that data-parallel strategies refuse before any process starts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from components.errors import ConfigError
from components.parallel.base import Cell, Parallel
from components.parallel.ddp import DDP
from components.parallel.fsdp import FSDP
from components.parallel.zero import Zero
from tests.gang import FP32


def check(strategy: Parallel, model: nn.Module | None = None) -> None:
    strategy.check(Cell(FP32, "cpu", 2, 2, (model or nn.Linear(2, 2)).to("meta")))


class Scaled(nn.Linear):
    def __init__(self, *shape: int) -> None:
        super().__init__(2, 2)
        self.factor = nn.Parameter(torch.ones(shape))


def hook_of_one(bucket: Any) -> Any: ...


def hook_with_options(state: Any, bucket: Any, *, scale: float = 1.0) -> Any: ...


NO_HOOK = 3


@pytest.mark.parametrize("replicate", [1, 2])
def test_sharding_refuses_scalars(replicate: int) -> None:
    strategy = FSDP(replicate=replicate)
    said = rf"parallel={strategy.name}: the parameters factor of Scaled are scalars.*parallel=ddp"
    with pytest.raises(ConfigError, match=said):
        check(strategy, Scaled())
    check(strategy, Scaled(1))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_refuses_parameters_without_elements(stage: Any) -> None:
    said = rf"parallel=zero{stage}: the parameters factor of Scaled have no elements"
    with pytest.raises(ConfigError, match=said):
        check(Zero(stage), Scaled(0, 4))
    check(Zero(stage), Scaled())


@pytest.mark.parametrize("strategy", [DDP(), FSDP(), Zero(1), Zero(3)], ids=lambda s: s.name)
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_are_refused(strategy: Parallel, kind: Any) -> None:
    model = nn.Sequential(kind(5, 2, sparse=True), nn.Linear(2, 2))
    said = rf"parallel={strategy.name} .*embeddings 0 of Sequential.*sparse=False"
    with pytest.raises(ConfigError, match=said):
        check(strategy, model)
    check(strategy, nn.Sequential(kind(5, 2), kind(5, 2, sparse=True).requires_grad_(False)))


@pytest.mark.parametrize("size", [0, -3])
def test_buckets_have_a_size(size: int) -> None:
    with pytest.raises(ConfigError, match=rf"bucket_cap_mb={size} .*bucket_cap_mb=1"):
        check(DDP(bucket_cap_mb=size))
    check(DDP(bucket_cap_mb=1))


@pytest.mark.parametrize("size", [-1.0, math.nan, -math.inf])
def test_groups_have_a_size(size: float) -> None:
    with pytest.raises(ConfigError, match=rf"parallel\.group_mb={size} must be"):
        check(FSDP(group_mb=size))
    check(FSDP(group_mb=0.0))


@pytest.mark.parametrize("name", ["hook_of_one", "NO_HOOK"])
def test_a_hook_takes_two_arguments(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"comm_hook={__name__}\.{name} cannot be called"):
        check(DDP(comm_hook=f"{__name__}.{name}"))
    check(DDP(comm_hook=f"{__name__}.hook_with_options"))
    check(DDP(comm_hook="components.parallel.comm_hooks.bf16_compress"))
