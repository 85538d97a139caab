"""Half-precision parameters computed with as autocast computes with fp32 ones.

A strategy that keeps a half-precision copy of the parameters for compute would
otherwise change which operations run in which type: an embedding would start a
half-precision residual stream, and normalisations mix half weights with fp32
inputs or running statistics, which torch's kernels refuse. Under autocast, matrix
products run in the compute type and everything else in the type of its operands,
which are fp32 where parameters are. So matrix products keep the half parameters
as they are, and every other module sees its own as fp32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from components.model.mixin import mix_in

HALF = (torch.bfloat16, torch.float16)

MATRIX_PRODUCTS = (nn.Linear, nn.Bilinear, _ConvNd, nn.RNNBase, nn.MultiheadAttention)
"""Modules whose parameters autocast narrows anyway."""

LOOKUPS = (nn.Embedding, nn.EmbeddingBag)
"""Modules that pick rows: widening what they picked is the same, and far less than the table."""


def compute_as_autocast(model: nn.Module) -> None:
    """Make the modules of `model` see half-precision parameters as autocast would see fp32 ones.

    Puts a forward around theirs; names, parameters and hooks stay as they are.
    """
    for module in model.modules():
        if isinstance(module, LOOKUPS):
            mix_in(module, _WideOutput)
        elif module._parameters and not isinstance(module, MATRIX_PRODUCTS):
            mix_in(module, _WideParameters)


class Autocast(nn.Module):
    """Calls `module` under autocast, wherever it is called from.

    The region lies inside the module, where an engine that switches off the autocast
    regions around its own forward does not see it.
    """

    def __init__(self, module: nn.Module, device_type: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.module = module
        self.device_type = device_type
        self.dtype = dtype

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.autocast(self.device_type, dtype=self.dtype):
            return self.module(inputs)


class _WideOutput(nn.Module):
    """Mixed in before a lookup's own class."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs).float()


class _WideParameters(nn.Module):
    """Mixed in before a module's own class: its attributes hide the half parameters meanwhile."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        own = {name: p for name, p in self._parameters.items() if p is not None}
        wide = {name: p.float() for name, p in own.items() if p.dtype in HALF}
        vars(self).update(wide)
        try:
            return super().forward(*args, **kwargs)
        finally:
            for name in wide:
                del vars(self)[name]
