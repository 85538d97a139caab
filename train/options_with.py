"""Which other options of a group have what the chosen one has not."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig

from train.config_tree import key_exists
from train.hydra_api import Composer


def options_with(
    composer: Composer, config: DictConfig, group: str, keys: Sequence[str]
) -> list[str]:
    """The options of a group, but for the chosen one, with which the config has all these keys.

    Args:
        config: composed, with its `hydra` node.
    """
    chosen = config.hydra.runtime.choices.get(group)
    return [
        option
        for option in composer.options(group)
        if option != chosen and _has(composer, f"{group}={option}", keys)
    ]


def _has(composer: Composer, choice: str, keys: Sequence[str]) -> bool:
    try:
        config = composer.compose([choice])
    except Exception:
        return False
    return all(key_exists(config, key) for key in keys)
