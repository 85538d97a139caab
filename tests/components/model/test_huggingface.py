from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest
import torch

from components.errors import ConfigError
from components.model.huggingface import CausalLM
from components.model.stack import blocks_of, is_stack

TINY: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 8,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
LLAMA = TINY | {"intermediate_size": 32}


def make(architecture: str = "LlamaForCausalLM", config: dict[str, Any] = LLAMA) -> CausalLM:
    torch.manual_seed(0)
    return CausalLM(architecture=architecture, config=config)


@pytest.mark.parametrize(
    ("architecture", "config"), [("LlamaForCausalLM", LLAMA), ("GPT2LMHeadModel", TINY)]
)
def test_is_a_causal_language_model_in_fp32(architecture: str, config: dict[str, Any]) -> None:
    model = make(architecture, config).eval()
    tokens = torch.randint(64, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 64
    before, after = model(tokens), model(changed)
    assert before.shape == (1, 8, 64)
    assert before.dtype is torch.float32
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])
    assert len(blocks_of(model)) == 2
    assert not is_stack(model)


def test_keeps_the_librarys_names_behind_one_prefix() -> None:
    model = make()
    names = [name.removeprefix("model.") for name in model.state_dict()]
    assert names == list(model.model.state_dict())
    assert "model.layers.0.self_attn.q_proj.weight" in names


def test_same_seed_same_weights() -> None:
    first, second = make().state_dict(), make().state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_can_be_built_on_meta() -> None:
    with torch.device("meta"):
        model = make()
    assert all(parameter.is_meta for parameter in model.parameters())


@pytest.mark.parametrize(
    ("architecture", "config", "per_layer"),
    [
        # Four projections of attention and three of the gated feed-forward.
        ("LlamaForCausalLM", LLAMA, 4 * 16 * 16 + 3 * 16 * 32),
        # 12 width^2, in the library's own kind of linear layer; logits tied to the embedding.
        ("GPT2LMHeadModel", TINY, 12 * 16 * 16),
    ],
)
def test_flops(architecture: str, config: dict[str, Any], per_layer: int) -> None:
    weights = 2 * per_layer + 64 * 16
    attention = 12 * 2 * 16 * 8
    assert make(architecture, config).flops_per_sample() == 8 * (6 * weights + attention)


def test_names_an_unknown_architecture_and_its_neighbours() -> None:
    with pytest.raises(ConfigError, match=r"model\.architecture=LlamaForCausalM.*LlamaForCausalLM"):
        make("LlamaForCausalM")


def test_refuses_a_class_that_is_no_language_model() -> None:
    with pytest.raises(ConfigError, match=r"model\.architecture=LlamaConfig"):
        make("LlamaConfig")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hiden_size": 16}, r"model\.config\.hiden_size=16 .* LlamaConfig"),
        ({"hidden_size": "wide"}, r"model\.config .* LlamaConfig: .*hidden_size"),
        ({"hidden_size": 15}, r"model\.config .* LlamaConfig: (.|\n)*15"),
    ],
)
def test_refuses_settings_that_the_library_would_keep_or_choke_on(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make(config=LLAMA | changes)


def test_says_how_to_install_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'shardlab\[transformers\]'"):
        make()


def test_importing_the_module_does_not_import_the_library() -> None:
    code = "import sys, components.model.huggingface; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
