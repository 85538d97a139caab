"""A model that does not take its data is refused with both named."""

from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from components.data.synthetic import Synthetic
from components.errors import ConfigError
from components.model.gpt import GPT
from components.model.mlp import MLP
from components.objective import CrossEntropy, SquaredError
from train.rehearsal import refuse_deaf_patience, rehearse

CONFIG = OmegaConf.create({"model": {"_target_": "M"}, "data": {"_target_": "D"}})


def _features() -> Synthetic:
    return Synthetic(kind="features", in_features=6, classes=3, val_samples=0)


def test_what_fits_passes_and_is_left_in_training() -> None:
    model = MLP(in_features=6, width=4, layers=2, classes=3)
    rehearse(model, CrossEntropy(), _features().train_set(), CONFIG)
    assert model.training


@pytest.mark.parametrize(
    ("model", "objective"),
    [
        (MLP(in_features=5, width=4, layers=2, classes=3), CrossEntropy()),
        (MLP(in_features=6, width=4, layers=2, classes=3), SquaredError()),
        (GPT(vocab_size=9, seq_len=8, layers=1, heads=1, width=8), CrossEntropy()),
    ],
)
def test_what_does_not_fit_is_refused(model: nn.Module, objective: CrossEntropy) -> None:
    with pytest.raises(ConfigError, match=r"_target_=M .* _target_=D .*\(4, 6\) float32|M.*D"):
        rehearse(model, objective, _features().train_set(), CONFIG)


def test_a_user_s_model_is_not_called() -> None:
    class Mine(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            raise AssertionError

    rehearse(Mine(), CrossEntropy(), _features().train_set(), CONFIG)


@pytest.mark.parametrize(("eval_every", "validation"), [(0, True), (1, False)])
def test_patience_that_cannot_act_is_refused(eval_every: int, validation: bool) -> None:
    config = OmegaConf.merge(CONFIG, {"patience": 2, "eval_every": eval_every})
    with pytest.raises(ConfigError, match="patience=2"):
        refuse_deaf_patience(config, _features().train_set() if validation else None)
