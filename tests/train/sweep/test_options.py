"""The keys under `sweep`."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from components.errors import ConfigError
from train.hydra_api import Composer
from train.sweep.options import SweepOptions, check_options, options_of


def test_the_defaults_are_those_of_the_config() -> None:
    assert options_of(Composer().compose([])) == SweepOptions()
    assert options_of(OmegaConf.create({})) == SweepOptions()


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"slots": 0}, "sweep.slots=0: one job at a time is the least."),
        ({"slots": "two"}, "sweep.slots=two: "),
        ({"on_error": "halt"}, "sweep.on_error=halt: "),
        ({"slot": 2}, "sweep.slot: nobody reads a key slot there. Did you mean sweep.slots?"),
        ({"steps": 2}, "let its first line be `# @package _global_`"),
        ("cube", "sweep=cube: must be a mapping"),
    ],
)
def test_mistakes_are_told_by_key(node: Any, message: str) -> None:
    (problem,) = check_options(OmegaConf.create(node) if isinstance(node, dict) else node)
    assert message in problem


def test_what_is_right_passes() -> None:
    node = {"slots": 2, "on_error": "stop", "resume": "latest", "objective": "val/accuracy"}
    assert check_options(OmegaConf.create(node)) == []


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ("two", "sweep.slots=two: expects int"),
        ("???", "sweep.slots=???: a value must be given"),
        ("${steps}", "sweep.slots=many: expects int"),
        ("${none}", "Interpolation key 'none' not found"),
    ],
)
def test_options_are_read_checked(slots: str, message: str) -> None:
    config = OmegaConf.create({"steps": "many", "sweep": {"slots": slots}})
    with pytest.raises(ConfigError) as error:
        options_of(config)
    assert message in str(error.value)
