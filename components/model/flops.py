"""FLOPs of a model, counted from its shapes."""

from __future__ import annotations

from torch import nn


def linear_weights(model: nn.Module) -> int:
    """Weights in the model's linear layers: multiply-adds per position of a forward.

    Read off the layers' sizes, because a sharded weight may be empty on this rank.
    """
    return sum(
        layer.in_features * layer.out_features
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
    )
