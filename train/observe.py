"""What really ran, read off live tensors: their types."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from components.parallel.base import Parallel


class ComputeProbe:
    """Reads the compute type off the output of the first matrix product, then steps aside."""

    def __init__(self, model: nn.Module) -> None:
        self.dtype = ""
        for layer in model.modules():
            weight = getattr(layer, "weight", None)
            if isinstance(weight, nn.Parameter) and weight.dim() >= 2:
                if isinstance(layer, nn.Embedding):  # a look-up, not a product
                    continue
                self._handle = layer.register_forward_hook(self._see)
                return

    def _see(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.is_tensor(output):
            self.dtype = _name(output.dtype)
        self._handle.remove()


def effective_dtypes(parallel: Parallel, probe: ComputeProbe) -> dict[str, str]:
    """The types of params, grads, optimizer state, compute and reductions of this rank.

    `master` is there where a strategy keeps a further copy of the parameters.
    """
    held = parallel.held().dtypes()
    types = {
        "param": held["params"],
        "grad": held["grads"],
        "optimizer": held["optimizer"] or "none",  # plain SGD keeps nothing
        "compute": probe.dtype,
        "reduce": parallel.reduce_dtype(),
    }
    return {**types, "master": held["master"]} if held["master"] else types


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
