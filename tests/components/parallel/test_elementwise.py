"""Optimizers that need whole parameters are refused where ranks update pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn, optim

from components.errors import ConfigError
from components.parallel.base import NamedParameters, Parallel
from components.parallel.ddp import DDP
from components.parallel.elementwise import ELEMENTWISE, refuse_unless_elementwise
from components.parallel.fsdp import FSDP
from components.parallel.zero import Zero
from tests.gang import alone, prepared


class Own(optim.Optimizer):
    def __init__(self, params: Any) -> None:
        super().__init__(params, {})


class OwnElementwise(Own):
    elementwise = True


class RowNormed(optim.SGD):
    elementwise = False


class Lookahead(optim.AdamW):
    pass


@pytest.fixture
def group_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def adafactor(named: NamedParameters) -> optim.Optimizer:
    return optim.Adafactor([p for _, p in named])


@pytest.mark.parametrize("cls", [*ELEMENTWISE, OwnElementwise, Lookahead])
def test_elementwise_ones_pass(cls: Any) -> None:
    refuse_unless_elementwise(cls([torch.zeros(2, 2, requires_grad=True)]), "fsdp")


@pytest.mark.parametrize("cls", [optim.Adafactor, optim.Muon, optim.LBFGS, Own, RowNormed])
def test_others_are_refused_by_name(cls: Any) -> None:
    optimizer = cls([torch.zeros(2, 2, requires_grad=True)])
    said = rf"{cls.__name__} .*parallel=zero2.*parallel=ddp.*elementwise = True"
    with pytest.raises(ConfigError, match=said):
        refuse_unless_elementwise(optimizer, "zero2")


@pytest.mark.parametrize("strategy", [FSDP(), Zero(1), Zero(2), Zero(3)], ids=lambda s: s.name)
def test_strategies_that_cut_parameters_ask(group_of_one: None, strategy: Parallel) -> None:
    with pytest.raises(ConfigError, match=rf"Adafactor .*parallel={strategy.name}"):
        prepared(strategy, nn.Linear(4, 3), alone(), adafactor)


def test_ddp_takes_any(group_of_one: None) -> None:
    strategy = prepared(DDP(), nn.Linear(4, 3), alone(), adafactor)
    assert isinstance(strategy.optimizer, optim.Adafactor)
    strategy.close()
