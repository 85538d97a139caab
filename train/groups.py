"""The groups that a run cannot do without, and that each says what it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from train.problems import refuse
from train.settings import COMPONENTS

if TYPE_CHECKING:
    from train.command_line import Job

REQUIRED = tuple(group for group in COMPONENTS if group != "objective")
"""Without an objective the model's own is taken; nothing stands in for another group."""


def check_groups(jobs: Iterable[Job]) -> None:
    """Check that each job has all of its components, before their targets are looked up.

    Raises:
        ConfigError: listing groups that are absent, or that name nothing to build.
    """
    told: dict[str, str] = {}
    for job in jobs:
        prefix = f"{job.label}: " if job.label else ""
        for problem in group_problems(job.config):
            told.setdefault(problem, f"{prefix}{problem}")
    refuse(list(told.values()))


def group_problems(config: DictConfig) -> list[str]:
    """What is wrong with the components of a resolved config; empty if nothing is."""
    plain: Any = OmegaConf.to_container(config)
    problems = [_component(group, plain.get(group)) for group in REQUIRED if group != "logger"]
    if plain.get("objective") is not None:
        problems.append(_component("objective", plain["objective"]))
    return [problem for problem in [*problems, *_loggers(plain.get("logger"))] if problem]


def _component(group: str, node: Any) -> str:
    if isinstance(node, dict) and "_target_" in node:
        return ""
    if node is None:
        return (
            f"{group}: a run needs one, and this config has none. "
            f"Choose an option, as in {group}=..., or take out ~{group}."
        )
    if not isinstance(node, dict):
        return (
            f"{group}={node}: must be a mapping with a _target_, the class to build. "
            f"Choose an option of the group {group}."
        )
    return (
        f"{group}._target_: is missing, so that there is nothing to build. Let the chosen file "
        f"name a class, as in `_target_: my_module.MyClass`, or take out ~{group}._target_."
    )


def _loggers(node: Any) -> list[str]:
    if not isinstance(node, dict):
        shown = "null" if node is None else node
        return [f"logger={shown}: must be a mapping of sinks. Choose logger=none for no sinks."]
    return [
        f"logger.{name}={child}: a sink is a mapping with a _target_, the class to build. "
        f"Give +logger.{name}._target_=..., or logger.{name}=null to leave it out."
        for name, child in node.items()
        if child is not None and not (isinstance(child, dict) and "_target_" in child)
    ]
