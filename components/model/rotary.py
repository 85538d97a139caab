"""Rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

BASE = 10_000.0
"""The slowest pair of components turns once in about 2 pi x BASE positions (the paper's value)."""


class Rotary(nn.Module):
    """Turns pairs of a head's components by an angle proportional to the position.

    Dot products of turned queries and keys depend on the distance of their
    positions only. Component i is paired with i + head_dim / 2.

    The tables are buffers outside the state dict, and always fp32: in bf16 the
    position 257 is 256. As they follow from the sizes alone they are computed
    afresh after every move or cast of the module, so that `.bfloat16()` leaves
    them fp32 and `.to_empty()` after construction on the meta device fills them.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, head_dim: int, seq_len: int) -> None:
        """Tables of (seq_len, head_dim / 2); `head_dim` must be even."""
        super().__init__()
        self.head_dim = head_dim
        self.seq_len = seq_len
        for name, table in zip(("cos", "sin"), self.tables(None), strict=True):
            self.register_buffer(name, table, persistent=False)

    def tables(self, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """Cosines and sines of (position, pair) on `device`; None is the default device."""
        pairs = torch.arange(0, self.head_dim, 2, device=device, dtype=torch.float32)
        frequencies = BASE ** (-pairs / self.head_dim)
        positions = torch.arange(self.seq_len, device=device, dtype=torch.float32)
        angles = torch.outer(positions, frequencies)
        return angles.cos(), angles.sin()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.cos, self.sin = self.tables(self.cos.device)
        return self

    def forward(self, heads: Tensor) -> Tensor:
        """Turn (rows, heads, time, head_dim), in fp32; the result has the input's type."""
        time = heads.shape[-2]
        cos, sin = self.cos[:time], self.sin[:time]
        first, second = heads.float().chunk(2, dim=-1)
        turned = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
        return turned.to(heads.dtype)
