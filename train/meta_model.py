"""The model without data."""

from __future__ import annotations

import torch
from omegaconf import DictConfig
from torch import nn
from torch.nn.parameter import is_lazy

from components.errors import ConfigError
from train.blocks import wrap_blocks
from train.kinds import build_kind, build_objective
from train.unheard import unheard


@unheard()
def on_meta(config: DictConfig) -> nn.Module:
    """The model's shapes, dtypes and blocks, at no cost in memory, and unheard.

    Raises:
        ConfigError: when it cannot be built, or has no shapes yet.
    """
    with torch.device("meta"):
        model: nn.Module = build_kind(nn.Module, config.model, "model")
    lazy = [name for name, p in model.named_parameters() if is_lazy(p)]
    if lazy:
        raise ConfigError(
            f"model._target_={config.model._target_} has parameters without a shape "
            f"({', '.join(lazy[:3])}), as torch's lazy modules do until their first forward. "
            "Give the modules their sizes: nn.Linear(in_features, ...), not nn.LazyLinear(...)."
        )
    build_objective(config, model)
    wrap_blocks(model, config)
    return model
