"""Every `_target_` of a config, checked before anything starts, and built.

Checking imports the targets' modules but calls nothing. `build` is Hydra's
`instantiate` with errors for readers: the key, the target, the cause.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from components.errors import ConfigError
from train.beside import BESIDE, arguments
from train.config_tree import join
from train.hydra_api import InstantiationException, instantiate
from train.locate import NotFound, locate, message, place
from train.problems import refuse
from train.signatures import Arguments, misfits

if TYPE_CHECKING:
    from train.command_line import Job

SPECIAL = ("_target_", "_args_", "_partial_", "_recursive_", "_convert_")
FINDERS = ("get_method", "get_class", "get_object", "get_static_method")
"""Functions of hydra.utils whose `path` names an object, as `_target_` does."""


def check_targets(config: DictConfig) -> None:
    """Check every `_target_` node of a resolved config, nested ones and those in lists too.

    Raises:
        ConfigError: listing targets that do not resolve, and arguments that are
            unknown, missing or of a wrong type, each by its config key.
    """
    refuse(_problems(OmegaConf.to_container(config, resolve=True), "", True, {}))


def check_jobs(jobs: Iterable[Job]) -> None:
    """Check the targets of all jobs of a sweep (or of one run) before the first starts.

    Raises:
        ConfigError: as `check_targets`; in a sweep each mistake names its job
            and the job's overrides, and one that several jobs share is told once.
    """
    known: dict[str, list[str]] = {}
    told: dict[str, str] = {}
    for job in jobs:
        prefix = f"{job.label}: " if job.label else ""
        for problem in _problems(OmegaConf.to_container(job.config, resolve=True), "", True, known):
            told.setdefault(problem, f"{prefix}{problem}")
    refuse(list(told.values()))


def build(node: DictConfig, key: str, **kwargs: Any) -> Any:
    """Build what a node describes; lists and mappings arrive as plain ones.

    Args:
        node: has a `_target_`; with `_partial_: true` a factory is returned.
        key: the node's full config key, for messages.
        kwargs: further arguments, passed as they are.

    Raises:
        ConfigError: the constructor's own, unchanged, or one that names the key,
            the target and the constructor's own message.
    """
    node = arguments(node, key)
    try:
        if not kwargs:
            return instantiate(node, _convert_="all")
        # Hydra would take dataclasses among the arguments for configs: call with them afterwards.
        factory = instantiate(node, _convert_="all", _partial_=True)
        if node.get("_partial_", False):
            return functools.partial(factory, **kwargs)
        return factory(**kwargs)
    except (Exception, SystemExit) as error:  # a constructor that exits has not built anything
        raise _config_error(error, node, key) from error


def _config_error(error: BaseException, node: DictConfig, key: str) -> ConfigError:
    at, target = key, node.get("_target_")
    cause: BaseException = error
    while isinstance(cause, InstantiationException) and cause.__cause__ is not None:
        at = _full_key(cause) or at
        cause = cause.__cause__
    if isinstance(cause, ConfigError):
        return cause
    if isinstance(cause, InstantiationException):  # Hydra's own refusal
        at = _full_key(cause) or at
        text = " ".join(line for line in str(cause).splitlines() if "full_key:" not in line)
        return ConfigError(f"{at}: {target} cannot be built. {text}")
    if at != key:
        nested = OmegaConf.select(node._get_root(), at)
        target = nested.get("_target_") if OmegaConf.is_dict(nested) else target
    return ConfigError(f"{at}: {target} cannot be built. {message(cause)} ({place(cause)})")


def _full_key(error: BaseException) -> str | None:
    lines = [line for line in str(error).splitlines() if line.startswith("full_key: ")]
    return lines[-1].removeprefix("full_key: ") if lines else None


def _problems(node: Any, key: str, complete: bool, known: dict[str, list[str]]) -> list[str]:
    """The problems of a plain node and all below it. `known` keeps those of equal nodes."""
    if isinstance(node, list):
        return [
            p for i, item in enumerate(node) for p in _problems(item, join(key, i), complete, known)
        ]
    if not isinstance(node, dict):
        return []
    found = []
    if "_target_" in node:
        same = f"{key}|{complete}|{node!r}"
        if same not in known:
            known[same] = _check(node, key, complete)
        found += known[same]
        complete = complete and node.get("_recursive_", True) is True
    for name, child in node.items():
        found += _problems(child, join(key, name), complete, known)
    return found


def _check(node: dict[str, Any], key: str, complete: bool) -> list[str]:
    name = node["_target_"]
    if not isinstance(name, str):
        return [f"{join(key, '_target_')}={name}: must be a dotted path such as torch.nn.Linear."]
    try:
        target = locate(name)
        if name.startswith("hydra.utils.") and name.rpartition(".")[2] in FINDERS:
            locate(str(node.get("path")))
    except NotFound as error:
        return [f"{join(key, '_target_')}={name}: {error}"]
    if not callable(target):
        return [
            f"{join(key, '_target_')}={name}: is a {type(target).__name__}, which cannot be "
            "called. Name a class or a function."
        ]
    for flag in ("_partial_", "_recursive_"):
        if not isinstance(node.get(flag, False), bool):
            return [f"{join(key, flag)}={node[flag]}: must be true or false."]
    positional = node.get("_args_", [])
    if not isinstance(positional, list):
        return [f"{join(key, '_args_')}={positional}: must be a list."]
    given = Arguments(
        named={str(n): v for n, v in node.items() if n not in (*SPECIAL, *BESIDE.get(key, ()))},
        positional=positional,
        complete=complete and not node.get("_partial_", False),
    )
    return misfits(target, name, key, given)
