"""Models as a stack stem -> blocks -> head: what sharding, checkpointing and pipelines cut.

A module that has these three children, and whose forward is
`head(blocks[-1](... blocks[0](stem(inputs))))`, can be cut into pipeline
stages, sharded by blocks and re-computed by blocks without knowing more.
`stem` and `head` may be any module; `blocks` is an `nn.ModuleList`.
"""

from __future__ import annotations

from torch import Tensor, nn


class Stack(nn.Module):
    """Base class of the built-in models; users' own may simply have the same children."""

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
