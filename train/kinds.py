"""Components built from the config, each held against what its group asks for."""

from __future__ import annotations

from functools import partial
from typing import Any

from omegaconf import DictConfig
from torch import nn

from components.cluster.ranks import Ranks, all_agree
from components.errors import ConfigError
from components.logger.base import Logger
from components.objective import Objective, objective_of
from components.parallel.base import Parallel
from components.parallel.gate import Gate
from train.targets import build

AUTO = "components.parallel.auto.Auto"


def build_loggers(config: DictConfig) -> list[Logger]:
    """The sinks that the `logger` group names."""
    nodes = {name: node for name, node in config.logger.items() if node is not None}
    return [build_kind(Logger, node, f"logger.{name}") for name, node in nodes.items()]


def build_objective(config: DictConfig, model: nn.Module) -> Objective:
    """The chosen objective, or the model's own."""
    node = config.get("objective")
    if node is None:
        return objective_of(model)
    chosen: Objective = build(node, "objective")
    must_have(chosen, ("count", "loss_sum", "metrics"), node, "objective")
    return chosen


def build_gate(config: DictConfig, ranks: Ranks) -> Gate:
    """What judges a run's steps, by the keys at the root."""
    return Gate(
        on_nonfinite=config.on_nonfinite,
        on_spike=config.on_spike,
        factor=config.spike_factor,
        window=config.spike_window,
        agree=partial(all_agree, ranks),
    )


def build_parallel(config: DictConfig) -> Parallel:
    """The strategy that a config names.

    Raises:
        ConfigError: when it is none, or one that is not settled yet.
    """
    if config.parallel.get("_target_") == AUTO:
        raise ConfigError(
            "parallel=auto is settled where a run starts, by what fits there, and here is no run "
            "to start. Take a strategy: python -m train.plan plan.all=true cluster.device=... "
            "marks the one to take on another machine."
        )
    parallel: Parallel = build_kind(Parallel, config.parallel, "parallel")
    return parallel


def build_kind(kind: type, node: DictConfig, key: str) -> Any:
    """What a node describes.

    Raises:
        ConfigError: when that is not a `kind`.
    """
    made = build(node, key)
    if not isinstance(made, kind):
        raise _wrong_kind(made, node, key, f"{kind.__module__}.{kind.__qualname__}")
    return made


def must_have(made: object, methods: tuple[str, ...], node: DictConfig, key: str) -> None:
    """As `build_kind`, for what is known by its methods and not by a base class.

    Raises:
        ConfigError: naming the methods, when one is missing.
    """
    absent = [name for name in methods if not callable(getattr(made, name, None))]
    if absent:
        raise _wrong_kind(made, node, key, f"class with {', '.join(methods)}")


def _wrong_kind(made: object, node: DictConfig, key: str, wanted: str) -> ConfigError:
    role = "logger" if key.startswith("logger.") else key
    return ConfigError(
        f"{key}._target_={node._target_} gives a {type(made).__name__}; "
        f"{'an' if role[0] in 'aeiou' else 'a'} {role} is a {wanted}."
    )
