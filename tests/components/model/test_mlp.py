from __future__ import annotations

import pytest
import torch

from components.errors import ConfigError
from components.model.mlp import MLP
from components.model.stack import is_stack


def test_flattens_samples_into_logits() -> None:
    model = MLP(in_features=64, width=8, layers=3, classes=10)
    images = torch.randn(5, 1, 8, 8)
    assert model(images).shape == (5, 10)
    assert torch.equal(model(images), model(images.flatten(1)))


def test_is_a_stack_with_a_block_for_each_layer_after_the_first() -> None:
    model = MLP(in_features=64, width=8, layers=3, classes=10)
    assert is_stack(model)
    assert len(model.blocks) == 2


def test_flops() -> None:
    model = MLP(in_features=64, width=8, layers=3, classes=10)
    assert model.flops_per_sample() == 6 * (64 * 8 + 2 * 8 * 8 + 8 * 10)


@pytest.mark.parametrize(("key", "value"), [("layers", 1), ("width", 0)])
def test_refuses_sizes_too_small(key: str, value: int) -> None:
    sizes = {"in_features": 4, "width": 4, "layers": 2, "classes": 2} | {key: value}
    with pytest.raises(ConfigError, match=rf"model\.{key}={value}"):
        MLP(**sizes)
