"""Re-compute a block's activations in the backward instead of keeping them.

Chen et al., 2016, https://arxiv.org/abs/1604.06174: memory for activations
falls to the blocks' inputs, for one more forward.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from components.errors import ConfigError
from components.model.mixin import mix_in
from components.model.stack import blocks_of

KEY = "model.checkpointing"
Mode = Literal["none", "full", "selective", "reentrant"]

KEPT = (
    *("mm", "addmm", "bmm", "baddbmm", "convolution"),
    *(f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn")),
    *(
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_fused_attention_overrideable",
    ),
)
"""Operations of aten whose results `selective` keeps: those that take long to compute."""


def checkpoint_blocks(model: nn.Module, mode: Mode) -> None:
    """Make each of the model's blocks re-compute its activations; call before it is spread.

    The blocks stay where and what they are: parameter names, hooks and copies
    of the model are as before. Random state is replayed, so dropout drops the
    same; running statistics are updated once.

    Args:
        model: changed in place; its blocks are those of `blocks_of`.
        mode: `full` keeps a block's input alone. `selective` keeps the results of matrix
            products, convolutions and attention too, and re-computes what is cheap (after
            Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198). `reentrant` is `full` in
            the older form, which runs the backward inside the backward and some old code relies on.

    Raises:
        ConfigError: when the mode is unknown or the model declares no blocks.
    """
    if mode == "none":
        return
    if mode not in FORMS:
        raise ConfigError(
            f"{KEY}={mode} is unknown: take none, {', '.join([*FORMS][:-1])} or {[*FORMS][-1]}."
        )
    blocks = blocks_of(model)
    if not blocks:
        raise ConfigError(
            f"{KEY}={mode} re-computes a model block by block, but {type(model).__name__} declares "
            f"none. Give it an nn.ModuleList named `blocks`, or set {KEY}=none."
        )
    # A block in the list twice is one block that runs twice. Call hooks (sharding, casts) stay
    # outside.
    for block in dict.fromkeys(blocks):
        mix_in(block, FORMS[mode])


class _Full(nn.Module):
    """Mixed in before a block's own class."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        run = partial(super().forward, **kwargs)
        if not torch.is_grad_enabled():
            return run(*args)
        return self.recomputed(run, args)

    def recomputed(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return checkpoint(run, *args, use_reentrant=False, context_fn=self.contexts)

    def contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        """For the forward, and for the one in the backward."""
        return nullcontext(), _running_statistics_kept(self)


class _Selective(_Full):
    def contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        keeps, takes = create_selective_checkpoint_contexts(_keep_or_recompute)
        return keeps, _inside(_running_statistics_kept(self), takes)


class _Reentrant(_Full):
    def recomputed(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        calls = itertools.count()

        def once_more(_: torch.Tensor, *args: Any) -> Any:
            with nullcontext() if next(calls) == 0 else _running_statistics_kept(self):
                return run(*args)

        # It yields gradients only if an input needs one, which is not so for the first block on
        # frozen embeddings: hence one more input that does.
        anchor = torch.empty(0, requires_grad=True)
        return checkpoint(once_more, anchor, *args, use_reentrant=True)


def _keep_or_recompute(_: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    kept = operation.namespace == "aten" and operation._opname in KEPT
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


@contextmanager
def _inside(
    outer: AbstractContextManager[Any], inner: AbstractContextManager[Any]
) -> Iterator[None]:
    with outer, inner:
        yield


FORMS: dict[str, type[nn.Module]] = {
    "full": _Full,
    "selective": _Selective,
    "reentrant": _Reentrant,
}
"""By mode."""


@contextmanager
def _running_statistics_kept(block: nn.Module) -> Iterator[None]:
    """Let batch norms update copies of their running statistics, which one forward updates once."""
    own = [
        (module, dict(module._buffers))
        for module in block.modules()
        if isinstance(module, _NormBase)
    ]
    for norm, buffers in own:
        norm._buffers.update({name: b if b is None else b.clone() for name, b in buffers.items()})
    try:
        yield
    finally:
        for norm, buffers in own:
            norm._buffers.update(buffers)
