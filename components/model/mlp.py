"""A multi-layer perceptron for classification."""

from __future__ import annotations

from torch import nn

from components.errors import ConfigError
from components.model.flops import linear_weights
from components.model.stack import Stack


class MLP(Stack):
    """(rows, ...) samples, flattened to `in_features`, to (rows, classes) logits."""

    def __init__(self, *, in_features: int, width: int, layers: int, classes: int) -> None:
        """`layers` hidden layers of `width` with GELU; PyTorch's initialisation.

        Raises:
            ConfigError: for a size below 1, or fewer than 2 layers.
        """
        super().__init__()
        sizes = {"in_features": in_features, "width": width, "classes": classes}
        for key, size in sizes.items():
            if size < 1:
                raise ConfigError(f"model.{key}={size} must be at least 1.")
        if layers < 2:
            raise ConfigError(
                f"model.layers={layers} must be at least 2: the first hidden layer is the stem, "
                "the others are the blocks."
            )
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(in_features, width), nn.GELU())
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(layers - 1)
        )
        self.head = nn.Linear(width, classes)

    def flops_per_sample(self) -> float:
        """Floating-point operations of a forward and backward: 6 per weight."""
        return 6.0 * linear_weights(self)
