"""Causal self-attention with grouped key-value heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from components.model.rotary import Rotary


class Attention(nn.Module):
    """Every position looks at itself and those before it.

    `kv_heads` < `heads` lets groups of query heads share keys and values
    (Ainslie et al., 2023, https://arxiv.org/abs/2305.13245).
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        kv_heads: int,
        bias: bool,
        dropout: float,
        rotary: Rotary | None,
    ) -> None:
        """`rotary` turns queries and keys; None where positions are learned."""
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads
        self.dropout = dropout
        head_dim = width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * head_dim, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.rotary = rotary

    def forward(self, hidden: Tensor) -> Tensor:
        """(rows, time, width) to (rows, time, width)."""
        rows, time, width = hidden.shape
        total = self.heads + 2 * self.kv_heads
        qkv = self.qkv(hidden).view(rows, time, total, -1).transpose(1, 2)
        query, key, value = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        if self.rotary is not None:
            query, key = self.rotary(query), self.rotary(key)
        mixed = causal_attention(query, key, value, self.dropout if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).reshape(rows, time, width))


def causal_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    """Causal softmax attention.

    Args:
        query: (rows, heads, time, head_dim).
        key, value: (rows, kv_heads, time, head_dim); kv_heads divides heads.
        dropout: probability with which an attention weight is dropped.

    Returns:
        (rows, heads, time, head_dim) in the type of `query`.
    """
    shared = query.shape[1] != key.shape[1]
    if query.device.type == "cpu" and query.dtype is not torch.float32:
        # The CPU kernel takes 3 to 8 times as long in half types as in fp32 (torch 2.13, AVX2), so
        # the products are formed in fp32: at least as exact. Autocast would undo it, so it is off.
        with torch.autocast("cpu", enabled=False):
            mixed = F.scaled_dot_product_attention(
                query.float(),
                key.float(),
                value.float(),
                dropout_p=dropout,
                is_causal=True,
                enable_gqa=shared,
            )
        return mixed.to(query.dtype)
    return F.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout, is_causal=True, enable_gqa=shared
    )
