"""Configs that ask the pod: `${pod:nnodes}` and its kin, and how they agree with its variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from components.cluster.pod import KEYS, SOURCES, pod_value
from components.errors import ConfigError
from train.hydra_api import register_resolver
from train.problems import refuse

RESOLVER = "pod"


def register(environ: Mapping[str, str] = os.environ) -> None:
    """Make `${pod:...}` known to configs, with the values of these variables."""
    register_resolver(RESOLVER, lambda key: pod_value(key, environ))


def asks(config: DictConfig, *keys: str) -> bool:
    """Whether a composed config leaves any of these keys of its cluster to the pod; all if none."""
    return any(_asked(_cluster(config).get(key)) for key in keys or KEYS)


def check(config: DictConfig, environ: Mapping[str, str] = os.environ) -> None:
    """Hold a composed config that asks the pod against all that the pod says.

    Raises:
        ConfigError: listing variables that are missing or no numbers, and keys that say
            something else.
    """
    cluster = _cluster(config)
    if not asks(config):
        return
    problems: dict[str, None] = {}
    for key in KEYS:
        try:
            said = pod_value(key, environ)
        except ConfigError as error:
            problems[str(error)] = None
            continue
        given = cluster.get(key)
        if not _asked(given) and said != "auto" and str(given) != str(said):
            problems[
                f"cluster.{key}={given}, but {SOURCES[key]}={said} in the pod's environment. Leave "
                f"cluster.{key} out, or make a TrainJob that agrees."
            ] = None
    refuse(list(problems))


def _cluster(config: DictConfig) -> dict[Any, Any]:
    node = config.get("cluster") if config else None
    plain = OmegaConf.to_container(node, resolve=False) if OmegaConf.is_dict(node) else {}
    assert isinstance(plain, dict)
    return plain


def _asked(value: object) -> bool:
    return isinstance(value, str) and value.startswith(f"${{{RESOLVER}:")
