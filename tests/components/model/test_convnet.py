from __future__ import annotations

import pytest
import torch

from components.errors import ConfigError
from components.model.convnet import ConvNet
from components.model.stack import is_stack

SIZES = {"channels": 1, "image_size": 8, "width": 4, "layers": 1, "classes": 10}


def test_images_to_logits() -> None:
    model = ConvNet(**SIZES)
    assert is_stack(model)
    assert model(torch.randn(3, 1, 8, 8)).shape == (3, 10)


def test_gathers_running_statistics_in_training_only() -> None:
    model = ConvNet(**SIZES)
    model(torch.randn(3, 1, 8, 8))
    norm = model.blocks[0].norm
    assert norm.num_batches_tracked == 1
    model.eval()
    model(torch.randn(3, 1, 8, 8))
    assert norm.num_batches_tracked == 1


def test_flops() -> None:
    # Kernels of 3x3x1x4 and 3x3x4x4 at 64 pixels, then 4x10 once.
    assert ConvNet(**SIZES).flops_per_sample() == 6 * ((36 + 144) * 64 + 40)


def test_refuses_sizes_too_small() -> None:
    with pytest.raises(ConfigError, match=r"model\.layers=0"):
        ConvNet(**SIZES | {"layers": 0})
