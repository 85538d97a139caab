"""Configs that ask a scheduler for a node's place: `${pod:nnodes}`, `${slurm:nnodes}` and kin.

What a config says by itself has to agree with what the scheduler's variables say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from components.cluster import pod, slurm
from components.cluster.joined import Joined, joined
from components.errors import ConfigError
from train.hydra_api import register_resolver
from train.merge import key_of
from train.problems import refuse


@dataclass(frozen=True)
class Scheduler:
    """Who says where a node stands.

    Attributes:
        resolver: its name in configs, as in `${pod:nnodes}`.
        choice: its option of the group `cluster`.
        where: whose variables they are, in words.
        cure: what to do about one that says something else, beside leaving the key out.
        sources: the keys of `cluster` that it says, with the variable or variables for each.
        value: what the variables say of such a key.
        check: refuses variables that do not fit together.
    """

    resolver: str
    choice: str
    where: str
    cure: str
    sources: Mapping[str, str]
    value: Callable[[str, Mapping[str, str]], int | str]
    check: Callable[[Mapping[str, str]], None] = lambda environ: None

    def asked(self, value: object) -> bool:
        """Whether a value of a config, as it is written, is left to this scheduler."""
        return isinstance(value, str) and value.startswith(f"${{{self.resolver}:")


POD = Scheduler(
    resolver="pod",
    choice="kubernetes",
    where="the pod's environment",
    cure="make a TrainJob that agrees",
    sources=pod.SOURCES,
    value=pod.pod_value,
)
SLURM = Scheduler(
    resolver="slurm",
    choice="slurm",
    where="the step's environment",
    cure="have sbatch and srun ask for as many",
    sources=slurm.SOURCES,
    value=slurm.step_value,
    check=slurm.check_one_task,
)
SCHEDULERS = (POD, SLURM)


def register(environ: Mapping[str, str] = os.environ, *schedulers: Scheduler) -> None:
    """Make the resolvers known to configs, with the values of these variables.

    Args:
        schedulers: whose; all if none.
    """
    for one in schedulers or SCHEDULERS:
        register_resolver(one.resolver, lambda key, one=one: one.value(key, environ))


def asks(config: DictConfig, scheduler: Scheduler, *keys: str) -> bool:
    """Whether a composed config leaves any of these keys of its cluster to it; all if none."""
    cluster = _cluster(config)
    return any(scheduler.asked(cluster.get(key)) for key in keys or scheduler.sources)


def check(config: DictConfig, environ: Mapping[str, str] = os.environ) -> None:
    """Hold a composed config that asks a scheduler against all that its variables say.

    Raises:
        ConfigError: listing variables that are missing, no numbers or at odds, and keys that say
            something else.
    """
    for one in SCHEDULERS:
        if asks(config, one):
            _check(_cluster(config), one, environ)


def _check(cluster: dict[Any, Any], one: Scheduler, environ: Mapping[str, str]) -> None:
    problems: dict[str, None] = {}
    for key, source in one.sources.items():
        try:
            said = one.value(key, environ)
        except ConfigError as error:
            problems[str(error)] = None
            continue
        given = cluster.get(key)
        if not one.asked(given) and said != "auto" and str(given) != str(said):
            problems[
                f"cluster.{key}={given}, but {source}={said} in {one.where}. Leave "
                f"cluster.{key} out, or {one.cure}."
            ] = None
    refuse(list(problems))
    one.check(environ)


def gang_of(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> Joined | None:
    """The gang that torchrun or srun has started this process for; None when it starts its own.

    Under `cluster=slurm` each task of srun starts the ranks of its node. That has to stand among
    the words of the command: of the tasks of a gang, all but the first read no config.

    Raises:
        ConfigError: when the variables contradict each other.
    """
    gang = joined(environ)
    if gang is not None and gang.launcher == "srun" and leads_node(words):
        return None
    return gang


def leads_node(words: Sequence[str]) -> bool:
    """Whether a command's words choose `cluster=slurm`."""
    chosen = [word.partition("=")[2].strip() for word in words if key_of(word) == "cluster"]
    return chosen[-1:] == [SLURM.choice]


def refuse_untyped(config: DictConfig, gang: Joined | None) -> None:
    """Refuse a config that asks Slurm in a gang of srun, whose other tasks do not know of it.

    Raises:
        ConfigError: with what to type.
    """
    if gang is not None and asks(config, SLURM):
        raise ConfigError(
            "cluster=slurm has been chosen by a file or a run that goes on. Under "
            f"{gang.launcher} it has to be typed, for every task to see it: add cluster=slurm."
        )


def _cluster(config: DictConfig) -> dict[Any, Any]:
    node = config.get("cluster") if config else None
    plain = OmegaConf.to_container(node, resolve=False) if OmegaConf.is_dict(node) else {}
    assert isinstance(plain, dict)
    return plain
