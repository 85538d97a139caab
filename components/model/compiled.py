"""Compiling a model block by block (torch.compile).

One compiled forward serves all blocks of a class, and what a strategy does around a block (gather
its parameters, re-compute its activations, autocast) stays outside.
https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from os import environ
from typing import Any

import torch
from torch import nn

from components.errors import ConfigError
from components.model.mixin import mix_in
from components.model.stack import blocks_of

FORMS = 1024
"""Compiled forms that a process may make of a block: training and evaluation, shapes of a batch,
and layers that hold a number of their own, as those of transformers do. Beyond its limit, 8 of
itself, torch runs on uncompiled and says so in a log only; here it fails."""


def compile_blocks(model: nn.Module) -> None:
    """Make each of the model's blocks run compiled; call before anything else is put around them.

    Nothing is compiled yet: that is done by the first forward, which waits for it.

    Args:
        model: changed in place; its blocks are those of `blocks_of`.

    Raises:
        ConfigError: when the model declares no blocks.
    """
    blocks = dict.fromkeys(blocks_of(model))
    if not blocks:
        raise ConfigError(
            f"compile=true compiles a model block by block, but {type(model).__name__} declares "
            "none. Give it an nn.ModuleList named `blocks`, or set compile=false."
        )
    for block in blocks:
        mix_in(block, _Compiled)


def refuse_without_compiler(device: str) -> None:
    """Refuse to compile where what that takes is missing.

    Args:
        device: `cpu` or `cuda`.

    Raises:
        ConfigError: naming it.
    """
    compiler = environ.get("CXX", "g++")
    if device == "cpu" and shutil.which(compiler) is None:
        raise ConfigError(
            f"compile=true on a CPU needs a C++ compiler, and there is no {compiler}. Install g++, "
            "name another in the variable CXX, or set compile=false."
        )


class _Compiled(nn.Module):
    """Mixed in before a block's own class."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        own = type(self)
        if own not in _forwards:
            torch._dynamo.config.recompile_limit = FORMS
            torch._dynamo.config.fail_on_recompile_limit_hit = True
            _forwards[own] = torch.compile(super(_Compiled, own).forward)
        return _forwards[own](self, *args, **kwargs)


_forwards: dict[type, Callable[..., Any]] = {}
"""What each class of blocks runs; compiled when it is called."""
