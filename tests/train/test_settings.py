from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from train.hydra_api import CONF
from train.settings import COMPONENTS, KEYS, OVERLAYS, check_settings


def problems(**keys: Any) -> list[str]:
    return check_settings(OmegaConf.create({"steps": 10, **keys}))


def test_settings_are_the_root_keys_of_the_config() -> None:
    config = OmegaConf.load(CONF / "config.yaml")
    assert set(KEYS) == set(config) - {"defaults", "sweep"}  # a mapping of its own
    groups = {name for entry in config.defaults if entry != "_self_" for name in entry}
    assert groups == {*COMPONENTS, *OVERLAYS, "hydra", "sweep"}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"steps": 0}, "steps=0: steps must be at least 1"),
        ({"steps": 1e3}, "steps=1000.0: expects int, got the float 1000.0. Write 1000."),
        ({"global_batch_size": 0}, "at least 1"),
        ({"accumulation": True}, "accumulation=true: expects int | null, got the bool true."),
        ({"clip_norm": 0}, "clip_norm=0: clip_norm must be a positive number"),
        ({"clip_norm": "1e-4"}, "Write 1.0e-4 without quotes."),
        ({"seed": -1}, "seed=-1"),
        ({"log_every": 0}, "log_every=0"),
        ({"compile": "all"}, "expects bool, got the text 'all'"),
        ({"deterministic": "yes"}, "expects bool, got the text 'yes'"),
    ],
)
def test_wrong_values_are_refused(keys: dict[str, Any], words: str) -> None:
    (problem,) = problems(**keys)
    assert words in problem


@pytest.mark.parametrize(
    "keys",
    [
        {"clip_norm": 1},
        {"clip_norm": None},
        {"eval_every": 0},
        {"micro_batch_size": None},
        {"compile": True},
    ],
)
def test_right_values_pass(keys: dict[str, Any]) -> None:
    assert problems(**keys) == []


def test_a_root_key_that_nobody_reads_is_refused_with_the_nearest() -> None:
    assert problems(stesp=3) == [
        "stesp=3: nobody reads a key stesp at the root. Did you mean steps?"
    ]
    assert problems(new=1) == ["new=1: nobody reads a key new at the root. Take it out."]


def test_a_root_key_that_an_interpolation_reads_passes() -> None:
    assert problems(width=8, model={"width": "${width}"}) == []


def test_an_experiment_file_without_its_package_line_is_refused() -> None:
    (problem,) = problems(experiment={"steps": 3})
    assert "# @package _global_" in problem


def test_several_problems_are_told_together() -> None:
    found = check_settings(OmegaConf.create({"steps": 0, "seed": -1}))
    assert [text.partition("=")[0] for text in found] == ["steps", "seed"]
