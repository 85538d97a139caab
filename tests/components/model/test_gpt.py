from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from components.errors import ConfigError
from components.model.gpt import GPT
from components.model.stack import blocks_of, is_stack

SIZES: dict[str, Any] = {"vocab_size": 64, "seq_len": 16, "layers": 2, "heads": 4, "width": 32}
LLAMA_LIKE: dict[str, Any] = {"norm": "rms", "mlp": "swiglu", "kv_heads": 2}
GPT2_LIKE: dict[str, Any] = {"positions": "learned", "bias": True, "tied_embeddings": True}


def make(**changes: Any) -> GPT:
    torch.manual_seed(0)
    return GPT(**SIZES | changes)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("kind", [{}, LLAMA_LIKE, GPT2_LIKE])
def test_no_output_depends_on_later_tokens(kind: dict[str, Any]) -> None:
    model = make(**kind)
    tokens = torch.randint(64, (1, 16))
    changed = tokens.clone()
    changed[0, 9] = (changed[0, 9] + 1) % 64
    before, after = model(tokens), model(changed)
    assert before.shape == (1, 16, 64)
    assert torch.equal(before[:, :9], after[:, :9])
    assert (before[:, 9:] != after[:, 9:]).any(-1).all()


@pytest.mark.parametrize("kind", [{}, LLAMA_LIKE, GPT2_LIKE])
def test_order_of_earlier_tokens_matters(kind: dict[str, Any]) -> None:
    model = make(**kind)
    tokens = torch.tensor([[3, 4, 5, 6]])
    swapped = torch.tensor([[4, 3, 5, 6]])
    assert not torch.allclose(model(tokens)[:, -1], model(swapped)[:, -1], atol=1e-7)


def test_starts_with_the_stated_spread() -> None:
    model = make(width=256, layers=8, vocab_size=512, bias=True, positions="learned")
    block = model.blocks[3]
    for weight in (
        model.stem.tokens.weight,
        model.head.projection.weight,
        block.attention.qkv.weight,
        block.mlp.up.weight,
    ):
        assert weight.std().item() == pytest.approx(0.02, rel=0.03)
    for weight in (block.attention.out.weight, block.mlp.down.weight):
        assert weight.std().item() == pytest.approx(0.02 / math.sqrt(16), rel=0.03)
    assert block.mlp_norm.weight.eq(1).all()
    assert block.mlp_norm.bias.eq(0).all()
    assert block.attention.qkv.bias.eq(0).all()


def test_first_loss_is_that_of_a_uniform_guess() -> None:
    tokens = torch.randint(64, (4, 16))
    loss = nn.functional.cross_entropy(make()(tokens).flatten(0, 1), tokens.flatten())
    assert loss.item() == pytest.approx(math.log(64), abs=0.05)


def test_same_seed_same_weights() -> None:
    first, second = make().state_dict(), make().state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_tied_weight_is_one_parameter() -> None:
    tied, untied = make(tied_embeddings=True), make()
    assert tied.head.projection.weight is tied.stem.tokens.weight
    assert count(untied) - count(tied) == 64 * 32


def test_construction_on_meta_can_be_given_weights() -> None:
    with torch.device("meta"):
        model = make(tied_embeddings=True)
    assert all(parameter.is_meta for parameter in model.parameters())
    model.to_empty(device="cpu")
    model.reset_parameters()
    assert model.head.projection.weight is model.stem.tokens.weight
    model.load_state_dict(make(tied_embeddings=True).state_dict())
    tokens = torch.randint(64, (2, 16))
    torch.testing.assert_close(model(tokens), make(tied_embeddings=True)(tokens))


def test_state_dict_has_plain_keys() -> None:
    assert list(make(layers=1).state_dict()) == [
        "stem.tokens.weight",
        "blocks.0.attention_norm.weight",
        "blocks.0.mlp_norm.weight",
        "blocks.0.attention.qkv.weight",
        "blocks.0.attention.out.weight",
        "blocks.0.mlp.up.weight",
        "blocks.0.mlp.down.weight",
        "head.norm.weight",
        "head.projection.weight",
    ]


def test_is_a_stack_of_blocks() -> None:
    model = make()
    assert is_stack(model)
    assert blocks_of(model) == list(model.blocks)


def test_flops_of_a_tiny_model() -> None:
    model = GPT(vocab_size=8, seq_len=4, layers=1, heads=2, width=4, tied_embeddings=True)
    # qkv 4x12, out 4x4, up 4x16, down 16x4, logits 4x8: 224 weights; attention 12 x 1 x 4 x 4.
    assert model.flops_per_sample() == 4 * (6 * 224 + 192)


def test_flops_of_gpt2_match_the_published_formula() -> None:
    with torch.device("meta"):
        model = GPT(
            vocab_size=50257, seq_len=1024, layers=12, heads=12, width=768, tied_embeddings=True
        )
    # 12 layers x 12 width^2 weights and the logits; 12 layers x 12 heads x 64 x 1024 x 12.
    weights = 12 * 12 * 768**2 + 50257 * 768
    assert model.flops_per_sample() == 1024 * (6 * weights + 12 * 12 * 12 * 64 * 1024)


def test_swiglu_has_about_as_many_weights_as_gelu() -> None:
    assert make(width=96, mlp="swiglu").blocks[0].mlp.up.weight.shape == (256, 96)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 30}, ("model.width=30", "model.heads=4", "32")),
        ({"kv_heads": 3}, ("model.kv_heads=3", "model.heads=4")),
        ({"width": 36, "heads": 4}, ("model.positions=rope", "model.width=36", "9")),
        ({"layers": 0}, ("model.layers=0",)),
        ({"heads": 0}, ("model.heads=0",)),
        ({"vocab_size": -1}, ("model.vocab_size=-1",)),
        ({"dropout": 1.0}, ("model.dropout=1.0",)),
        ({"norm": "batch"}, ("model.norm=batch", "layer, rms")),
        ({"mlp": "relu"}, ("model.mlp=relu", "gelu, swiglu")),
        ({"positions": "alibi"}, ("model.positions=alibi", "rope, learned")),
    ],
)
def test_refuses_what_does_not_fit(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refusal:
        make(**changes)
    assert all(word in str(refusal.value) for word in words)


def test_refuses_sequences_longer_than_its_positions() -> None:
    with pytest.raises(ConfigError, match=r"model\.seq_len=16 .* 17 tokens"):
        make()(torch.zeros(1, 17, dtype=torch.long))


def test_learns_a_repeating_sequence() -> None:
    model = make(**LLAMA_LIKE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = (torch.arange(17) % 5).repeat(2, 1)
    for _ in range(30):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5
