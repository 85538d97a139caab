"""The keys under `hydra.sweeper` of a search."""

from __future__ import annotations

import dataclasses
import importlib.util
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from components.errors import ConfigError
from train.annotations import mismatch, written
from train.command_line import CommandLine, of_jobs
from train.config_tree import as_written
from train.nearest import hint
from train.problems import refuse
from train.sweep.space import Space, read_space

KEY = "hydra.sweeper"


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How points are chosen.

    Attributes:
        sampler: `tpe` learns from earlier jobs, `random` does not, `grid` takes every point.
        n_trials: points that `tpe` and `random` try, those of earlier commands included.
        seed: of the sampler.
        params: what is searched, by key, as on the command line.
    """

    sampler: Literal["tpe", "random", "grid"] = "tpe"
    n_trials: int = 20
    seed: int = 0
    params: dict[str, Any] = field(default_factory=dict)


def _options(config: DictConfig) -> SearchOptions:
    """The options in a composed config.

    Raises:
        ConfigError: listing what is wrong with them, or that Optuna is not installed.
    """
    node: Any = OmegaConf.to_container(config.hydra.sweeper, resolve=True)
    hints = typing.get_type_hints(SearchOptions)
    known = {f.name for f in dataclasses.fields(SearchOptions)}
    given = {key: value for key, value in node.items() if key != "_target_"}
    problems = []
    for key, value in given.items():
        if key not in known:
            near = hint(f"{KEY}.{key}", [f"{KEY}.{name}" for name in known])
            problems.append(f"{KEY}.{key}: a search has no such key. {near}".rstrip())
        elif (wrong := mismatch(hints[key], value)) is not None:
            problems.append(f"{KEY}.{key}={written(value)}: {wrong}.")
        elif key == "n_trials" and value < 1:
            problems.append(f"{KEY}.n_trials={value}: one point is the least.")
        elif key == "seed" and value < 0:
            problems.append(f"{KEY}.seed={value}: 0 is the least.")
    refuse(problems)
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError(
            "hydra/sweeper=search needs Optuna, which is not installed. "
            "Install it with: pip install 'shardlab[search]'"
        )
    return SearchOptions(**given)


def searched(line: CommandLine) -> tuple[SearchOptions, Space]:
    """How a command searches, and what.

    Raises:
        ConfigError: listing what is wrong with it.
    """
    options = _options(line.base)
    words = of_jobs(as_written(line.base.hydra.overrides.task))
    return options, read_space(line.composer, options.params, words)
