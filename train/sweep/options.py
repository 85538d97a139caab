"""The keys under `sweep`: how the jobs of a sweep are run, not what any of them is."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from components.errors import ConfigError
from train.annotations import mismatch, written
from train.nearest import hint
from train.problems import refuse

ROOT = "sweep"

LOSS = "val/loss"
"""The objective where none is named."""

Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How a sweep is run.

    Attributes:
        slots: jobs that run at once on this machine, each on its share of cores or GPUs.
        on_error: whether the jobs after one that fails still run.
        resume: the folder of a sweep to go on with, or `latest`.
        dry_run: list the jobs with what would become of each, and stop.
        objective: the metric that a search goes by, the last value of each run; None: `val/loss`.
        direction: whether the search looks for its lowest or its highest value.
    """

    slots: int = 1
    on_error: Literal["continue", "stop"] = "continue"
    resume: str | None = None
    dry_run: bool = False
    objective: str | None = None
    direction: Direction = "minimize"


KEYS = tuple(field.name for field in dataclasses.fields(SweepOptions))


def options_of(config: DictConfig) -> SweepOptions:
    """The options in a composed config; the defaults where it has none.

    Raises:
        ConfigError: listing what is wrong with them.
    """
    node = config.get(ROOT)
    if node is None:
        return SweepOptions()
    if OmegaConf.is_config(node):
        try:
            node = OmegaConf.create(OmegaConf.to_container(node, resolve=True))
        except OmegaConfBaseException as error:
            raise ConfigError(
                f"{ROOT}: {str(error).splitlines()[0]}. Give a plain value."
            ) from None
    refuse(check_options(node))
    left = [f"{ROOT}.{key}" for key in node if OmegaConf.is_missing(node, key)]
    refuse([f"{key}=???: a value must be given, or the key left out." for key in left])
    plain: Any = OmegaConf.to_container(node)
    return SweepOptions(**plain)


def check_options(node: Any) -> list[str]:
    """What is wrong with the node `sweep` of a composed config; empty if nothing is."""
    if not OmegaConf.is_dict(node):
        return [f"{ROOT}={node}: must be a mapping of {', '.join(KEYS)}, or a file of that group."]
    hints = typing.get_type_hints(SweepOptions)
    problems = []
    for key in map(str, node):
        if key not in KEYS:
            near = hint(f"{ROOT}.{key}", [f"{ROOT}.{known}" for known in KEYS])
            words = [f"{ROOT}.{key}: nobody reads a key {key} there.", near]
            words += [f"If a file of the group {ROOT} sets it, let its first line be"]
            problems.append(" ".join(filter(None, [*words, "`# @package _global_`."])))
            continue
        if OmegaConf.is_missing(node, key) or OmegaConf.is_interpolation(node, key):
            continue
        wrong = mismatch(hints[key], node[key])
        if wrong is not None:
            problems.append(f"{ROOT}.{key}={written(node[key])}: {wrong}.")
        elif key == "slots" and node[key] < 1:
            problems.append(f"{ROOT}.slots={node[key]}: one job at a time is the least.")
    return problems
