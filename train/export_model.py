"""The model that exported weights belong to, as far as it can be built where they are exported."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from omegaconf import DictConfig
from torch import nn

from components.checkpoint.sources import Source, fit
from components.errors import ConfigError
from components.parallel.state import persistent_buffers
from train.allowed_targets import check_node
from train.kinds import build_kind


@dataclass(frozen=True)
class Known:
    """What the model says of its weights.

    Attributes:
        model: on the meta device; None where it cannot be built, or does not fit them.
        unknown: then, why.
        buffers: names of tensors that are no parameters, and may be infinite, as masks are.
    """

    model: nn.Module | None = None
    unknown: str = ""
    buffers: set[str] = field(default_factory=set)

    def first_names(self) -> dict[str, str]:
        """The names of its state dict, each with the first name of the same tensor."""
        if self.model is None:
            return {}
        first: dict[int, str] = {}
        return {
            name: first.setdefault(id(tensor), name)
            for name, tensor in self.model.state_dict(keep_vars=True).items()
        }

    def count(self, source: Source) -> int:
        """Parameters, a shared one once; with the buffers where the model is not known."""
        if self.model is not None:
            return sum(p.numel() for p in self.model.parameters())
        own = [layout for name, layout in source.layouts.items() if name not in source.tied]
        return sum(layout.shape.numel() for layout in own if layout.dtype.is_floating_point)


def known_model(config: DictConfig | None, source: Source) -> Known:
    """The model of a run's config, held against its weights; what is wrong is told, not raised."""
    if config is None or config.get("model") is None:
        return Known(unknown="no config.yaml with a model lies beside the weights")
    try:
        check_node(config.model, "model", source.path.parent)
        with torch.device("meta"):
            model: nn.Module = build_kind(nn.Module, config.model, "model")
    except ConfigError as error:
        return Known(unknown=str(error))
    found = fit(source, model)
    if not found.exact:
        return Known(unknown=f"model._target_={config.model._target_} does not fit them: {found}")
    return Known(model, buffers=set(persistent_buffers(model)))
