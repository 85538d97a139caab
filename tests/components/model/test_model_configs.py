"""Each file of conf/model builds, with the shapes it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import nn

CONF = Path(__file__).parents[3] / "conf"
DATA = [
    "+data.vocab_size=256",
    "+data.seq_len=128",
    "+data.in_features=64",
    "+data.channels=1",
    "+data.image_size=8",
    "+data.classes=10",
]


PARAMETERS = {
    "gpt2_124m": 124_439_808,
    "gpt2_1.5b": 1_557_611_200,
    "llama_7b": 6_738_415_616,
    "gpt3_175b": 174_604_259_328,
    # Embedding and logits 256 x 96; per block 4 x 96^2, 2 x 96 x 256 and two gains; a last gain.
    "gpt_nano": 2 * 256 * 96 + 4 * (4 * 96**2 + 2 * 96 * 256 + 2 * 96) + 96,
    # 64 -> 128 -> 128 -> 128 -> 10, with biases.
    "mlp": 65 * 128 + 2 * 129 * 128 + 129 * 10,
    # 3x3 kernels 1 -> 32 and three of 32 -> 32, four norms, 32 -> 10.
    "convnet": 9 * 32 + 3 * 9 * 32 * 32 + 4 * 2 * 32 + 33 * 10,
    # Four projections, three of the gated feed-forward and two RMS norms a layer, a last norm.
    "transformers": 2 * 256 * 96 + 4 * (4 * 96**2 + 3 * 96 * 256 + 2 * 96) + 96,
}


def build(name: str, *overrides: str) -> Any:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(overrides=[f"+model={name}", *DATA, *overrides])
    with torch.device("meta"):
        return instantiate(config.model, _convert_="all")


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_parameter_counts(name: str, parameters: int) -> None:
    assert count(build(name)) == parameters


def test_every_config_is_counted() -> None:
    there = {path.stem for path in (CONF / "model").glob("*.yaml")}
    assert there - {"parameters"} == PARAMETERS.keys()  # that one is any number of them


def test_the_published_models_keep_their_own_vocabulary_and_length() -> None:
    model = build("llama_7b")
    assert model.stem.tokens.weight.shape == (32_000, 4096)
    assert model.seq_len == 2048


def test_a_transformers_model_takes_overrides_and_another_architecture() -> None:
    model = build(
        "transformers",
        "model.architecture=GPT2LMHeadModel",
        "~model.config.intermediate_size",
        "~model.config.num_key_value_heads",
        "model.config.hidden_size=64",
        "+model.config.resid_pdrop=0.0",
    )
    assert type(model.model).__name__ == "GPT2LMHeadModel"
    assert model.model.transformer.wte.weight.shape == (256, 64)
    assert model.model.config.resid_pdrop == 0.0
