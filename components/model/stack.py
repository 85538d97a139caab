"""Models as a stack stem -> blocks -> head: what sharding, checkpointing and pipelines cut.

A module that has these three children, and whose forward is
`head(blocks[-1](... blocks[0](stem(inputs))))`, can be cut into pipeline
stages, sharded by blocks and re-computed by blocks without knowing more.
`stem` and `head` may be any module; `blocks` is an `nn.ModuleList`.

The children alone do not say what the forward does with them (it may add a
residual around the blocks), and a pipeline never calls it. So the class says
it: `is_chain = True` is the promise that its forward is the one above.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn


class Stack(nn.Module):
    """Base class of the built-in models; users' own may simply have the same children.

    Attributes:
        is_chain: the forward is `head(blocks(stem(inputs)))`. A subclass with a forward
            of its own has to say it again.
    """

    is_chain: ClassVar[bool] = True

    stem: nn.Module
    blocks: nn.ModuleList
    head: nn.Module

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, ...) inputs to (rows, ...) outputs."""
        hidden = self.stem(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The model's repeated blocks in the order of its forward; empty when it declares none."""
    blocks = getattr(model, "blocks", None)
    return list(blocks) if isinstance(blocks, nn.ModuleList) else []


def is_stack(model: nn.Module) -> bool:
    """Whether the model can be cut into pipeline stages."""
    return bool(blocks_of(model)) and all(
        isinstance(getattr(model, part, None), nn.Module) for part in ("stem", "head")
    )


def runs_as_chain(model: nn.Module) -> bool:
    """Whether the model's forward is promised to be `head(blocks(stem(inputs)))`.

    A promise counts for the forward of the class that gives it, not for one that overrides it.
    """
    for namespace in (vars(model), *map(vars, type(model).__mro__)):
        if "is_chain" in namespace:
            return bool(namespace["is_chain"])
        if "forward" in namespace:
            return False
    return False
