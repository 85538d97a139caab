"""Refusals of parameters that a strategy cannot spread, by name, from shapes alone."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from components.errors import ConfigError


def refuse_parameters(
    model: nn.Module, parallel: str, unfit: Callable[[nn.Parameter], bool], cause: str, cure: str
) -> None:
    """Refuse a model that has parameters for which `unfit` holds.

    Args:
        model: may be on the meta device.
        parallel: the strategy's word.
        cause, cure: the message's, as in "have no dimension, ..." and "Give ...".

    Raises:
        ConfigError: naming the parameters.
    """
    names = [name for name, p in model.named_parameters() if unfit(p)]
    if names:
        raise ConfigError(
            f"parallel={parallel}: the parameters {_some(names)} of {type(model).__name__} "
            f"{cause}. {cure}"
        )


def refuse_sparse_gradients(model: nn.Module, parallel: str) -> None:
    """Refuse trainable embeddings with sparse gradients, which do not fit into flat buffers.

    Raises:
        ConfigError: naming the modules.
    """
    names = [
        name or "the model itself"
        for name, module in model.named_modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
        and module.sparse
        and module.weight.requires_grad
    ]
    if names:
        raise ConfigError(
            f"parallel={parallel} reduces gradients in dense buffers, and the embeddings "
            f"{_some(names)} of {type(model).__name__} give sparse ones (sparse=True). "
            "Nearest: sparse=False, which computes the same."
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (" and more" if len(names) > 8 else "")
