"""The run of a TrainJob, composed and checked where its pods' hardware and files need not be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict

from components.cluster.node_count import elastic, node_counts
from components.cluster.pod import ADDRESS, NNODES, NODE_RANK, NPROC_PER_NODE, PORT
from components.errors import ConfigError
from components.logger.secrets import SECRET
from train import identity, places
from train.command_line import CommandLine, compose_jobs, parse
from train.groups import check_groups
from train.manifest_job import check_name, name_of
from train.merge import key_of
from train.problems import refuse
from train.targets import check_jobs

if TYPE_CHECKING:
    from train.sizes import Sizes

# torch is imported by the function that needs it: a mistake on the command line is told sooner.

FIRST_POD = {
    NNODES: "1",
    NPROC_PER_NODE: "auto",
    NODE_RANK: "0",
    ADDRESS: "node-0",
    PORT: "29400",
}
"""In place of a pod's variables while the run is composed; a command says the numbers itself."""

REFERENCE = re.compile(r"\$\{oc\.env:[A-Za-z_]\w*\}")
"""A value that is looked up where the run is, and has no other in reserve."""


@dataclass(frozen=True)
class Checked:
    """A run that pods can be given.

    Attributes:
        name: of its TrainJob.
        args: the words behind `python -m train` in each pod.
        nnodes, nproc_per_node: pods, and ranks in each.
        device: `cpu` or `cuda`.
        sizes: of one step.
    """

    name: str
    args: list[str]
    nnodes: int
    nproc_per_node: int
    device: str
    sizes: Sizes


def checked(words: Sequence[str], name: str | None) -> Checked:
    """Compose and check the run of a command.

    Args:
        words: overrides, and flags of `python -m train`.
        name: of the TrainJob; None makes one of the words.

    Raises:
        ConfigError: when there is no such run, or no TrainJob for it.
    """
    chosen = any(key_of(text) == "cluster" for text in words if not text.startswith("-"))
    args = [*words] if chosen else [*words, "cluster=kubernetes"]
    line = parse(args)
    _refuse_others(line)
    refuse([_secret(key) for key in secrets_in(line)])
    _refuse_own_place(line)
    places.register(FIRST_POD, places.POD)
    (job,) = jobs = compose_jobs(line)
    check_groups(jobs)
    check_jobs(jobs)
    config = job.config
    _refuse_resume(config.resume)
    identity.folder_of(config.run_id, "")
    name = name or name_of(words, config.run_id)
    if elastic(config.cluster.nnodes):
        raise ConfigError(
            f"cluster.nnodes={config.cluster.nnodes}: the pods of a TrainJob are so many from its "
            "start to its end. Give their number, as in cluster.nnodes="
            f"{node_counts(config.cluster.nnodes)[1]}."
        )
    check_name(name, config.cluster.nnodes)
    if config.run_id is None:
        args.append(_run_id(line, name))
    if config.cluster.device == "auto":
        raise ConfigError(
            "cluster.device=auto: whether the pods have GPUs is not to be seen from here. Give "
            "cluster.device=cuda or cluster.device=cpu."
        )
    nproc, sizes = _sizes(config)
    return Checked(name, args, config.cluster.nnodes, nproc, config.cluster.device, sizes)


def secrets_in(line: CommandLine) -> list[str]:
    """Keys of secrets to which overrides give a value that would stand in the manifest."""
    found = []
    for override in line.composer.parse(line.overrides):
        value = None if override.is_delete() else OmegaConf.create({"": override.value()})
        plain = None if value is None else OmegaConf.to_container(value)
        path = override.key_or_group
        inside = any(SECRET.search(part) for part in path.split("."))
        found += _secret_keys(plain[""] if isinstance(plain, dict) else None, path, inside)
    return found


def _secret_keys(value: Any, path: str, inside: bool) -> list[str]:
    """Paths at or below `path`; `inside` the key of a secret each value is one."""
    if isinstance(value, dict):
        return [
            found
            for key, item in value.items()
            for found in _secret_keys(
                item, f"{path}.{key}", inside or bool(SECRET.search(str(key)))
            )
        ]
    if isinstance(value, list):
        return [found for item in value for found in _secret_keys(item, path, inside)]
    hidden = value is None or (isinstance(value, str) and REFERENCE.fullmatch(value))
    return [path] if inside and not hidden else []


def _secret(key: str) -> str:
    variable = re.sub(r"\W", "_", key.rpartition(".")[2]).upper()
    return (
        f"{key}: a secret has no place in a manifest. Put it into a Kubernetes secret under the "
        f"name of a variable, and give --env-from SECRET:{variable} with "
        f"{key}='${{oc.env:{variable}}}'."
    )


def _refuse_others(line: CommandLine) -> None:
    """Refuse commands that are no run of their own."""
    if line.passthrough:
        raise ConfigError(
            "--help, --cfg and their like are answered by python -m train; a manifest is of a run."
        )
    if line.multirun:
        raise ConfigError(
            "-m: a TrainJob is one run. Write a manifest for each, or run the sweep in one pod by "
            "a command of your own, with cluster=single_node."
        )


def _refuse_resume(resume: str | None) -> None:
    if resume not in (None, "auto"):
        raise ConfigError(
            f"resume={resume}: what that run was started with is in its folder, which need not be "
            "here. Give its own words again with its run_id=<name>: the run goes on."
        )


def _run_id(line: CommandLine, name: str) -> str:
    """The override by which pods that are started again go on with the run."""
    word = f"run_id={name}"
    (override,) = line.composer.parse([word])
    if override.value() != name:
        raise ConfigError(
            f"--name {name}: is read as {override.value()}, no text. Take another name."
        )
    return word


def _refuse_own_place(line: CommandLine) -> None:
    """Refuse a cluster in which a pod would not ask which one it is."""
    if not places.asks(line.base, places.POD, "node_rank") or not places.asks(
        line.base, places.POD, "rdzv_endpoint"
    ):
        choice = line.base.hydra.runtime.choices.get("cluster")
        raise ConfigError(
            f"cluster={choice} with the given cluster.* tells all pods the same place. Leave "
            "cluster, cluster.node_rank and cluster.rdzv_endpoint out: each pod knows its own."
        )


def _sizes(config: DictConfig) -> tuple[int, Sizes]:
    """Ranks of a pod, and the sizes of a step on all of them."""
    from components.checkpoint.checkpoint import Checkpoint
    from components.cluster.cluster import Cluster
    from components.parallel.base import refuse_half_parameters
    from components.precision import Precision
    from train.cell import cell_of, refuse_several, sizes_of
    from train.kinds import build_kind, build_loggers, build_parallel
    from train.meta_model import on_meta

    here = config.cluster.copy()
    with open_dict(here):  # the rest of the options is checked without the pods' hardware
        here.interface = None
        if here.device == "cuda":
            here.device, here.backend = "cpu", "auto"
    build_kind(Cluster, here, "cluster")
    precision: Precision = build_kind(Precision, config.precision, "precision")
    parallel = build_parallel(config)
    if build_kind(Checkpoint, config.checkpoint, "checkpoint").enabled:
        parallel.check_saving()
    build_loggers(config)
    model = on_meta(config)
    refuse_half_parameters(model, precision)
    nnodes, nproc = config.cluster.nnodes, config.cluster.nproc_per_node
    if nproc == "auto":
        if not parallel.one_process:
            raise ConfigError(
                "cluster.nproc_per_node=auto: how many GPUs or cores a pod has is not to be seen "
                "from here. Give the ranks of a pod, as in cluster.nproc_per_node=8."
            )
        nproc = 1
    world = nnodes * nproc
    asking = f"cluster.nproc_per_node={nproc} and cluster.nnodes={nnodes} ask for"
    refuse_several(parallel, world, asking)
    cell = cell_of(config, precision, config.cluster.device, world, nproc, model)
    return nproc, sizes_of(config, parallel, cell)
