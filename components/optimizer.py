"""From an optimizer factory of the configuration to an optimizer over a model's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch import nn
from torch.optim import Optimizer

from components.errors import ConfigError

NamedParameter = tuple[str, nn.Parameter]


def decay_groups(
    named_parameters: Iterable[NamedParameter], weight_decay: float
) -> list[dict[str, Any]]:
    """Parameter groups in which only matrices decay.

    Parameters of two or more dimensions (matrices, embeddings, kernels) decay;
    gains and biases do not, because pulling them to zero changes what a layer
    computes instead of regularising it. Frozen parameters are left out. The
    decaying group comes first; each keeps the given order, an empty one is
    left out, and without weight decay there is a single group.
    """
    trainable = [parameter for _, parameter in named_parameters if parameter.requires_grad]
    if weight_decay == 0.0:
        return [{"params": trainable, "weight_decay": 0.0}] if trainable else []
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def build_optimizer(
    factory: Callable[..., Optimizer], named_parameters: Iterable[NamedParameter]
) -> Optimizer:
    """Call the factory with the trainable parameters, in decay groups where it decays weights.

    Args:
        factory: an optimizer class with its settings bound: a `functools.partial`,
            as a config with `_partial_: true` gives. One that has no
            `weight_decay`, bound or by default, gets a plain list.
        named_parameters: (plain name, parameter) pairs.

    Raises:
        ConfigError: when nothing is trainable, or the optimizer refuses its arguments.
    """
    named = [(name, parameter) for name, parameter in named_parameters if parameter.requires_grad]
    if not named:
        raise ConfigError(
            "optimizer: the model has no trainable parameter (requires_grad is false for all, or "
            "there are none). Leave something to train."
        )
    decay = bound_weight_decay(factory)
    params = decay_groups(named, decay) if decay else [parameter for _, parameter in named]
    try:
        return factory(params)
    except (TypeError, ValueError, RuntimeError) as error:
        name = getattr(getattr(factory, "func", factory), "__name__", "the optimizer")
        if "fused" in str(error):
            raise ConfigError(
                f"optimizer.fused=true is refused by {name}: {error}. "
                "Set optimizer.fused=false, or drop the key with ~optimizer.fused."
            ) from error
        raise ConfigError(f"optimizer: {name} refused its arguments: {error}") from error


def bound_weight_decay(factory: Callable[..., Optimizer]) -> float:
    """The weight decay bound in the factory, else its class's default, else 0."""
    if isinstance(factory, partial):
        # Not by the partial's own signature: that fails where a setting is unknown to the class.
        if "weight_decay" in factory.keywords:
            return factory.keywords["weight_decay"]
        factory = factory.func
    setting = inspect.signature(factory).parameters.get("weight_decay")
    return 0.0 if setting is None or setting.default is setting.empty else setting.default
