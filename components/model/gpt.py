"""Decoder-only transformer: GPT-2 and GPT-3, LLaMA, and small ones of either kind."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from components.errors import ConfigError
from components.model.attention import Attention
from components.model.block import MLPS, Block, make_norm
from components.model.flops import linear_weights
from components.model.rotary import Rotary
from components.model.stack import Stack

INIT_STD = 0.02
"""Standard deviation of weights and embeddings (Radford et al., 2019: GPT-2)."""


class Embedding(nn.Module):
    """Token embeddings, plus learned positions where the model has them."""

    def __init__(
        self, *, vocab_size: int, width: int, seq_len: int, learned: bool, dropout: float
    ) -> None:
        super().__init__()
        self.seq_len = seq_len
        self.tokens = nn.Embedding(vocab_size, width)
        self.positions = nn.Embedding(seq_len, width) if learned else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, time) token ids to (rows, time, width).

        Raises:
            ConfigError: for sequences longer than `model.seq_len`.
        """
        time = inputs.shape[1]
        if time > self.seq_len:
            raise ConfigError(
                f"model.seq_len={self.seq_len} is too short for sequences of {time} tokens: "
                f"raise model.seq_len or lower data.seq_len."
            )
        hidden = self.tokens(inputs)
        if self.positions is not None:
            hidden = hidden + self.positions(torch.arange(time, device=inputs.device))
        return self.dropout(hidden)


class Head(nn.Module):
    """Final norm, then the projection to logits over the vocabulary."""

    def __init__(self, norm: nn.Module, width: int, vocab_size: int) -> None:
        super().__init__()
        self.norm = norm
        self.projection = nn.Linear(width, vocab_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(rows, time, width) to (rows, time, vocab_size)."""
        return self.projection(self.norm(hidden))


class GPT(Stack):
    """Causal language model: (rows, time) token ids to (rows, time, vocab_size) logits.

    May be built on the meta device; `to_empty` and `reset_parameters` then
    give it weights.
    """

    stem: Embedding
    head: Head

    def __init__(
        self,
        *,
        vocab_size: int,
        seq_len: int,
        layers: int,
        heads: int,
        width: int,
        kv_heads: int | None = None,
        ffn_size: int | None = None,
        positions: Literal["rope", "learned"] = "rope",
        norm: Literal["layer", "rms"] = "layer",
        mlp: Literal["gelu", "swiglu"] = "gelu",
        bias: bool = False,
        dropout: float = 0.0,
        tied_embeddings: bool = False,
    ) -> None:
        """Build the model and draw its weights from torch's global generator.

        Args:
            vocab_size: token ids lie below it.
            seq_len: the longest sequence.
            layers: blocks.
            heads: attention heads, each `width / heads` wide.
            width: of the residual stream.
            kv_heads: heads for keys and values; None: as many as `heads`.
            ffn_size: inner width of the feed-forward; None: 4 x width, or for
                swiglu 8/3 x width (as many weights), rounded up to a multiple of 64.
            positions: rotary, or a learned embedding added to the tokens'.
            norm: layer norm, or RMS norm (Zhang & Sennrich, 2019, arXiv:1910.07467).
            mlp: kind of feed-forward.
            bias: biases in linear layers and layer norms; logits have none.
            dropout: on embeddings, attention weights and each residual branch.
            tied_embeddings: logits use the token embeddings as weight.

        Raises:
            ConfigError: where the sizes do not go together.
        """
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        ffn_size = default_ffn_size(width, mlp) if ffn_size is None else ffn_size
        check_sizes(
            {
                "vocab_size": vocab_size,
                "seq_len": seq_len,
                "layers": layers,
                "heads": heads,
                "width": width,
                "kv_heads": kv_heads,
                "ffn_size": ffn_size,
            },
            rotary=positions == "rope",
        )
        check_choice("positions", positions, ("rope", "learned"))
        check_choice("norm", norm, ("layer", "rms"))
        check_choice("mlp", mlp, tuple(MLPS))
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"model.dropout={dropout} must lie in [0, 1): it is a probability.")

        self.seq_len = seq_len
        self.width = width
        self.tied_embeddings = tied_embeddings
        self.stem = Embedding(
            vocab_size=vocab_size,
            width=width,
            seq_len=seq_len,
            learned=positions == "learned",
            dropout=dropout,
        )
        self.blocks = nn.ModuleList(
            Block(
                attention=Attention(
                    width=width,
                    heads=heads,
                    kv_heads=kv_heads,
                    bias=bias,
                    dropout=dropout,
                    rotary=Rotary(width // heads, seq_len) if positions == "rope" else None,
                ),
                mlp=MLPS[mlp](width, ffn_size, bias),
                norms=(make_norm(norm, width, bias), make_norm(norm, width, bias)),
                dropout=dropout,
            )
            for _ in range(layers)
        )
        self.head = Head(make_norm(norm, width, bias), width, vocab_size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights, in the order of `named_modules`, and tie what is tied.

        Normal with standard deviation 0.02; projections into the residual
        stream, of which there are two a layer, by 1 / sqrt(2 layers) less, so
        that the stream's variance does not grow with depth (GPT-2). Norms
        become 1, biases 0.
        """
        if self.tied_embeddings:
            self.head.projection.weight = self.stem.tokens.weight
        residual_std = INIT_STD / math.sqrt(2 * len(self.blocks))
        for name, module in self.named_modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=INIT_STD)
            elif isinstance(module, nn.Linear):
                into_stream = name.endswith(("attention.out", "mlp.down"))
                nn.init.normal_(module.weight, std=residual_std if into_stream else INIT_STD)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
                module.reset_parameters()

    def flops_per_sample(self) -> float:
        """Floating-point operations of a forward and backward over one full sequence.

        6 per weight of the matrix products and token, and 12 x layers x width
        x seq_len per token for attention scores and mixing, not halved for the
        causal mask: the count behind model FLOPs utilisation in appendix B of
        Chowdhery et al., 2022 (PaLM, https://arxiv.org/abs/2204.02311).
        """
        attention = 12 * len(self.blocks) * self.width * self.seq_len
        return float(self.seq_len * (6 * linear_weights(self) + attention))


def default_ffn_size(width: int, mlp: str) -> int:
    """The usual inner width: 4 x width, or 8/3 x width where there are three matrices."""
    return 64 * math.ceil(8 * width / 3 / 64) if mlp == "swiglu" else 4 * width


def check_choice(key: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a word that `model.<key>` does not know."""
    if value not in known:
        raise ConfigError(f"model.{key}={value} is unknown: take one of {', '.join(known)}.")


def check_sizes(sizes: dict[str, int], *, rotary: bool) -> None:
    """Refuse sizes below one, and heads that do not divide what they must."""
    for key, size in sizes.items():
        if size < 1:
            raise ConfigError(f"model.{key}={size} must be at least 1.")
    width, heads, kv_heads = sizes["width"], sizes["heads"], sizes["kv_heads"]
    if width % heads:
        raise ConfigError(
            f"model.width={width} is not a multiple of model.heads={heads}: the heads share the "
            f"width equally. The nearest width is {max(1, round(width / heads)) * heads}."
        )
    if heads % kv_heads:
        raise ConfigError(
            f"model.kv_heads={kv_heads} does not divide model.heads={heads}: each key-value head "
            "serves the same number of query heads. Take a divisor, or null for as many as heads."
        )
    if rotary and (width // heads) % 2:
        raise ConfigError(
            f"model.positions=rope turns pairs of components, but model.width={width} and "
            f"model.heads={heads} make heads of odd width {width // heads}. "
            "Take an even one, or model.positions=learned."
        )
