from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.optim import SGD, AdamW, Optimizer, RMSprop

from components.errors import ConfigError
from components.optimizer import build_optimizer, decay_groups

CONF = Path(__file__).parents[2] / "conf" / "optimizer"


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))


def names_by_group(net: nn.Module, groups: list[dict[str, Any]]) -> list[tuple[float, list[str]]]:
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    return [(g["weight_decay"], [names[id(p)] for p in g["params"]]) for g in groups]


def test_matrices_decay_and_vectors_do_not() -> None:
    net = model()
    assert names_by_group(net, decay_groups(net.named_parameters(), 0.1)) == [
        (0.1, ["0.weight", "1.weight"]),
        (0.0, ["1.bias", "2.weight", "2.bias"]),
    ]


def test_frozen_parameters_and_empty_groups_are_left_out() -> None:
    net = model()
    for module in (net[0], net[1]):
        module.weight.requires_grad_(False)
    groups = decay_groups(net.named_parameters(), 0.1)
    assert names_by_group(net, groups) == [(0.0, ["1.bias", "2.weight", "2.bias"])]


@pytest.mark.parametrize(
    ("factory", "decays"),
    [
        (partial(AdamW, lr=0.1, weight_decay=0.2), [0.2, 0.0]),
        (partial(AdamW, lr=0.1), [0.01, 0.0]),  # AdamW's own default
        (partial(AdamW, lr=0.1, weight_decay=0.0), [0.0]),
        (partial(SGD, lr=0.1), [0.0]),
    ],
)
def test_groups_follow_the_factorys_weight_decay(factory: Any, decays: list[float]) -> None:
    optimizer = build_optimizer(factory, model().named_parameters())
    assert [group["weight_decay"] for group in optimizer.param_groups] == decays


def test_only_matrices_shrink_without_gradient() -> None:
    net = model()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer = build_optimizer(partial(SGD, lr=0.5, weight_decay=0.1), net.named_parameters())
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in net.named_parameters():
        shrink = 0.95 if parameter.dim() >= 2 else 1.0
        torch.testing.assert_close(parameter.detach(), shrink * before[name])


@pytest.mark.parametrize(
    ("name", "kind", "decays"), [("adamw", AdamW, [0.1, 0.0]), ("sgd", SGD, [0.0])]
)
def test_configs_make_optimizers(name: str, kind: type, decays: list[float]) -> None:
    factory = instantiate(OmegaConf.load(CONF / f"{name}.yaml"), _convert_="all")
    optimizer = build_optimizer(factory, model().named_parameters())
    assert type(optimizer) is kind
    assert [group["weight_decay"] for group in optimizer.param_groups] == decays


class Halving(Optimizer):
    """A user's own optimizer: no learning rate, no weight decay, one argument."""

    def __init__(self, params: Any, factor: float) -> None:
        super().__init__(params, {"factor": factor})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.mul_(group["factor"])


def test_any_optimizer_works() -> None:
    net = nn.Linear(2, 1)
    nn.init.ones_(net.weight)
    build_optimizer(partial(Halving, factor=0.5), net.named_parameters()).step()
    assert net.weight.tolist() == [[0.5, 0.5]]


def test_frozen_parameters_never_reach_the_optimizer() -> None:
    net = model()
    net[0].weight.requires_grad_(False)
    optimizer = build_optimizer(partial(SGD, lr=0.1), net.named_parameters())
    assert len(optimizer.param_groups[0]["params"]) == 4


def test_nothing_to_train_is_refused() -> None:
    net = model().requires_grad_(False)
    with pytest.raises(ConfigError, match="no trainable parameter"):
        build_optimizer(partial(SGD, lr=0.1), net.named_parameters())


def test_an_optimizer_without_a_fused_form_names_the_key() -> None:
    factory = partial(RMSprop, lr=0.1, fused=True)
    with pytest.raises(ConfigError, match=r"optimizer\.fused=true is refused by RMSprop"):
        build_optimizer(factory, model().named_parameters())


def test_a_refused_value_is_a_mistake_in_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"AdamW refused its arguments: .*-1"):
        build_optimizer(partial(AdamW, lr=-1.0), model().named_parameters())


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_fused_updates_sharded_parameters_as_plain_ones() -> None:
    factory = partial(AdamW, lr=0.1, weight_decay=0.1, fused=True)
    tokens = torch.tensor([0, 1, 2])
    plain, sharded = model(), model()
    fully_shard(sharded, mesh=dist.init_device_mesh("cpu", (1,)))
    for net in (plain, sharded):
        optimizer = build_optimizer(factory, net.named_parameters())
        net(tokens).square().sum().backward()
        optimizer.step()
    for parameter, shard in zip(plain.parameters(), sharded.parameters(), strict=True):
        torch.testing.assert_close(shard.full_tensor(), parameter)  # type: ignore[operator]
