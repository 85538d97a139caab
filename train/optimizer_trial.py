"""Optimizer and scheduler tried on a stand-in for the model, before there is one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig
from torch import nn
from torch.optim import Optimizer

from components.errors import ConfigError
from components.optimizer import build_optimizer
from train.locate import message
from train.targets import build

SCHEDULED = 10_000
"""Steps of the schedule tried in advance, at the most: some 20 microseconds each."""

MISUSE = (
    ValueError,
    TypeError,
    RuntimeError,
    ArithmeticError,
    LookupError,
    AttributeError,
    AssertionError,
)
"""What torch raises for settings that an optimizer or a scheduler cannot have."""


def try_optimizer(config: DictConfig, model: nn.Module, device: str) -> None:
    """Let the optimizer and the scheduler refuse their settings on a stand-in for the model.

    Some settings are found wrong by the first steps only (an optimizer that wants a closure),
    some by the last ones (a schedule that is shorter than the run): both are taken.

    Raises:
        ConfigError: naming the group, its target and the library's words.
    """
    named = [
        (name, nn.Parameter(torch.zeros([1] * p.dim()), requires_grad=p.requires_grad))
        for name, p in model.named_parameters()
    ]
    factory = build(config.optimizer, "optimizer")
    optimizer = _refusing(partial(build_optimizer, factory, named), "optimizer", config.optimizer)
    schedule = build(config.scheduler, "scheduler")
    scheduler = _refusing(partial(schedule, optimizer), "scheduler", config.scheduler)
    for _, parameter in named:
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if _steps_anywhere(optimizer, device):
            _refusing(partial(_repeat, optimizer.step, 3), "optimizer", config.optimizer)
        steps = min(config.steps, SCHEDULED)
        _refusing(partial(_repeat, scheduler.step, steps), "scheduler", config.scheduler)


def _steps_anywhere(optimizer: Optimizer, device: str) -> bool:
    """Whether the stand-in, which lives on the CPU, tells anything about steps on `device`."""
    if device == "cpu":
        return True
    own = type(optimizer).__module__.startswith("torch.optim.")
    return own and not any(group.get("capturable") for group in optimizer.param_groups)


def _repeat(step: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        step()


def _refusing(make: Any, key: str, node: DictConfig) -> Any:
    try:
        return make()
    except MISUSE as error:
        raise ConfigError(
            f"{key}._target_={node._target_} refuses its settings: {message(error)}"
        ) from error
