"""One process, one device: the reference that the other strategies are compared with."""

from __future__ import annotations

from torch import nn

from components.parallel.torch_strategy import TorchStrategy
from components.precision import Precision


class Single(TorchStrategy):
    """The plain module, nothing spread."""

    name = "single"
    one_process = True

    def spread(self, model: nn.Module, precision: Precision) -> nn.Module:
        return model.to(self.ranks.device)
