"""The transformer block: attention and feed-forward, each behind a norm."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from components.model.attention import Attention

NORM_EPS = 1e-5
"""Keeps a norm of zeros finite; the value of GPT-2."""


def make_norm(kind: Literal["layer", "rms"], width: int, bias: bool) -> nn.Module:
    """A norm over the last dimension; an RMS norm has no bias."""
    if kind == "rms":
        return nn.RMSNorm(width, eps=NORM_EPS)
    return nn.LayerNorm(width, eps=NORM_EPS, bias=bias)


class GeluMLP(nn.Module):
    """up -> GELU (its tanh form, as in GPT-2) -> down."""

    def __init__(self, width: int, ffn_size: int, bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(width, ffn_size, bias=bias)
        self.down = nn.Linear(ffn_size, width, bias=bias)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(hidden), approximate="tanh"))


class SwigluMLP(nn.Module):
    """down(silu(gate) * up) (Shazeer, 2020, https://arxiv.org/abs/2002.05202)."""

    def __init__(self, width: int, ffn_size: int, bias: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(width, ffn_size, bias=bias)
        self.up = nn.Linear(width, ffn_size, bias=bias)
        self.down = nn.Linear(ffn_size, width, bias=bias)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(hidden)) * self.up(hidden))


MLPS: dict[str, type[GeluMLP] | type[SwigluMLP]] = {"gelu": GeluMLP, "swiglu": SwigluMLP}


class Block(nn.Module):
    """Pre-norm residual block: hidden + attention(norm), then hidden + mlp(norm)."""

    def __init__(
        self,
        *,
        attention: Attention,
        mlp: GeluMLP | SwigluMLP,
        norms: tuple[nn.Module, nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = norms
        self.attention = attention
        self.mlp = mlp
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """(rows, time, width) to (rows, time, width)."""
        hidden = hidden + self.dropout(self.attention(self.attention_norm(hidden)))
        return hidden + self.dropout(self.mlp(self.mlp_norm(hidden)))
