"""What a plan needs to know of a model: its parameters, buffers and blocks, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from components.model.stack import blocks_of


@dataclass(frozen=True)
class Weight:
    """One parameter, under its first name where it is shared.

    Attributes:
        module: name of the first module that holds it.
        itemsize: bytes of an element.
    """

    name: str
    module: str
    shape: tuple[int, ...]
    trainable: bool
    itemsize: int = 4

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.numel * self.itemsize


@dataclass(frozen=True)
class Facts:
    """A model as shapes.

    Attributes:
        weights: in the model's order, a shared one once.
        uses: names of weights by the module that holds them itself, shared ones under each.
        buffers: bytes.
        blocks: names of the blocks, in the order of the forward, each once.
    """

    weights: tuple[Weight, ...]
    uses: dict[str, tuple[str, ...]]
    buffers: int
    blocks: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(w.numel for w in self.weights)

    @property
    def trainable(self) -> int:
        """Number of those that are trained."""
        return sum(w.numel for w in self.weights if w.trainable)

    def block_of(self, name: str) -> str | None:
        """The block that a weight or module lies in."""
        return next((b for b in self.blocks if name == b or name.startswith(f"{b}.")), None)


def facts_of(model: nn.Module) -> Facts:
    """The facts of a model, on whatever device."""
    names = {p: name for name, p in model.named_parameters()}
    weights = tuple(
        Weight(name, name.rpartition(".")[0], tuple(p.shape), p.requires_grad, p.dtype.itemsize)
        for name, p in model.named_parameters()
    )
    uses = {
        name: tuple(names[p] for p in module._parameters.values() if p is not None)
        for name, module in model.named_modules()
        if any(p is not None for p in module._parameters.values())
    }
    modules = {module: name for name, module in model.named_modules()}
    blocks = tuple(modules[block] for block in dict.fromkeys(blocks_of(model)))
    return Facts(weights, uses, sum(b.nbytes for b in model.buffers()), blocks)


def bare(count: int) -> Facts:
    """A number of parameters without a model: a column of them, held by nothing."""
    return Facts((Weight("parameters", "", (count, 1), True, torch.float32.itemsize),), {}, 0, ())
