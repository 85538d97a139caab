from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

CONF = Path(__file__).parents[3] / "conf" / "logger"


@pytest.mark.parametrize(
    ("option", "sinks"),
    [
        ("default", {"wandb": "WandbLogger"}),
        ("tensorboard", {"wandb": "WandbLogger", "tensorboard": "TensorBoardLogger"}),
        ("none", {}),
    ],
)
def test_every_option_builds_its_sinks(option: str, sinks: dict[str, str]) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        built = instantiate(compose(option), _convert_="all")
    assert {key: type(sink).__name__ for key, sink in built.items()} == sinks


def test_overrides_reach_the_sink() -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("default", ["wandb.mode=disabled", "wandb.project=mine"])
    sink = instantiate(config, _convert_="all")["wandb"]
    assert (sink.mode, sink.project) == ("disabled", "mine")
