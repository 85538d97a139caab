"""Re-compute a block's activations in the backward instead of keeping them.

Chen et al., 2016, https://arxiv.org/abs/1604.06174: memory for activations
falls to the blocks' inputs, for one more forward.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from components.errors import ConfigError
from components.model.stack import blocks_of

Mode = Literal["none", "non_reentrant", "reentrant"]


def checkpoint_blocks(model: nn.Module, mode: Mode) -> None:
    """Make each of the model's blocks re-compute its activations; call before it is spread.

    The blocks stay where and what they are: parameter names, hooks and copies
    of the model are as before. Random state is replayed, so dropout drops the
    same; running statistics are updated once.

    Args:
        model: changed in place; its blocks are those of `blocks_of`.
        mode: `non_reentrant` is PyTorch's recommended form; `reentrant` runs the
            backward inside the backward, and some old code relies on it.

    Raises:
        ConfigError: when the mode is unknown or the model declares no blocks.
    """
    if mode == "none":
        return
    if mode not in ("non_reentrant", "reentrant"):
        raise ConfigError(
            f"activation_checkpointing={mode} is unknown: take none, non_reentrant or reentrant."
        )
    blocks = blocks_of(model)
    if not blocks:
        raise ConfigError(
            f"activation_checkpointing={mode} re-computes a model block by block, but "
            f"{type(model).__name__} declares none. Give it an nn.ModuleList named `blocks`, "
            "or set activation_checkpointing=none."
        )
    # A block in the list twice is one block that runs twice.
    for block in dict.fromkeys(blocks):
        # A subclass, not a function put on the instance: a replica or a deep copy of the block
        # then runs on its own parameters. Call hooks (sharding, casts) stay outside.
        cls = type(block)
        attributes = {"use_reentrant": mode == "reentrant", "__module__": cls.__module__}
        block.__class__ = type(cls.__name__, (_Recomputed, cls), attributes)


class _Recomputed(nn.Module):
    """Mixed in before a block's own class."""

    use_reentrant: ClassVar[bool]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        run = super().forward
        if not torch.is_grad_enabled():
            return run(*args, **kwargs)
        calls = itertools.count()

        def once_more(_: torch.Tensor, *args: Any) -> Any:
            with nullcontext() if next(calls) == 0 else _running_statistics_kept(self):
                return run(*args, **kwargs)

        # The reentrant form yields gradients only if an input needs one, which is not so for the
        # first block on frozen embeddings: hence one more input that does.
        anchor = torch.empty(0, requires_grad=True)
        return checkpoint(once_more, anchor, *args, use_reentrant=self.use_reentrant)


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
