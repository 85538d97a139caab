"""A run that is to be submitted, checked where its nodes' hardware is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict

from components.errors import ConfigError
from train.places import SLURM, asks
from train.slurm.options import ROOT, SlurmOptions, chosen, options_of

if TYPE_CHECKING:
    from train.command_line import Job
    from train.run_plan import Plan

# torch is imported by the functions that need it: a mistake on the command line is told sooner.


def plan_of(base: DictConfig, job: Job, folder: Path) -> Plan:
    """The plan of a job, checked for this machine or, where it is to be submitted, for others.

    Args:
        base: the command's config, with its `hydra` node.
        folder: the run's.

    Raises:
        ConfigError: for the first thing that cannot be.
    """
    from train.preflight import preflight

    if not chosen(base):
        return preflight(job.config, None, folder)
    return plan_elsewhere(options_of(base), job, folder)


def plan_elsewhere(options: SlurmOptions, job: Job, folder: Path) -> Plan:
    """The plan of a job of Slurm. Interfaces and GPUs of the nodes are seen there alone.

    Raises:
        ConfigError: for the first thing that cannot be.
    """
    from train.preflight import preflight

    nodes_of(job)
    _check_grace(options, job.config)
    here = job.config.copy()
    device = _device(options, here)
    with open_dict(here):
        here.cluster.nproc_per_node = _ranks(options, job, device)
        here.cluster.interface = None
        here.cluster.device = "cpu"
        here.memory_check = None  # this machine's memory is not the nodes'
        if device == "cuda":
            here.cluster.backend = "auto"
    plan = preflight(here, None, folder)
    if device == "cpu":
        return plan
    _check_on_gpus(plan)
    asked = job.config.cluster.backend
    return replace(plan, device=device, backend="nccl" if asked == "auto" else asked)


def nodes_of(job: Job) -> int:
    """Nodes of a job.

    Raises:
        ConfigError: when each of several would not know which one it is.
    """
    nodes = OmegaConf.select(job.config, "cluster.nnodes", default=1)
    if not isinstance(nodes, int):
        raise ConfigError(
            f"hydra/launcher=slurm with cluster.nnodes={nodes}: a job has a number of nodes that "
            "does not change. Give one."
        )
    if nodes > 1 and not asks(job.composed, SLURM, "node_rank"):
        raise ConfigError(
            f"hydra/launcher=slurm with cluster.nnodes={nodes}: each node has to know its place. "
            f"Add cluster=slurm, and leave cluster.node_rank and cluster.rdzv_endpoint out."
        )
    return nodes


def _check_grace(options: SlurmOptions, config: DictConfig) -> None:
    needed = config.cluster.preempt_grace_s
    if 0 < options.grace_s < needed:
        raise ConfigError(
            f"{ROOT}.grace_s={options.grace_s}: Slurm's warning would come later than ranks need "
            f"to save and end, which may take cluster.preempt_grace_s={needed:g} s. Raise the one "
            "or lower the other."
        )


def _device(options: SlurmOptions, config: DictConfig) -> str:
    asked: str = config.cluster.device
    if asked != "auto":
        return asked
    return "cuda" if options.gpus_per_node else "cpu"


def _ranks(options: SlurmOptions, job: Job, device: str) -> Any:
    """Ranks of a node, `auto` where that is known here."""
    from train.kinds import build_parallel

    given, gpus = job.config.cluster.nproc_per_node, options.gpus_per_node
    parallel = build_parallel(job.config)
    # One process may have several GPUs, unless the node's step makes a rank of each.
    if device == "cpu" or (parallel.one_process and not asks(job.composed, SLURM)):
        return given
    if given == "auto" and not gpus:
        raise ConfigError(
            "cluster.device=cuda: how many GPUs a node has is not to be seen from here. Give "
            f"{ROOT}.gpus=8, or cluster.nproc_per_node=8 where the partition gives them unasked."
        )
    if given != "auto" and gpus and given != gpus:
        raise ConfigError(
            f"cluster.nproc_per_node={given}, but {ROOT}.gpus={options.gpus} of each node, and a "
            f"rank takes one GPU. Leave cluster.nproc_per_node out, or ask for {given}."
        )
    return gpus or given


def _check_on_gpus(plan: Plan) -> None:
    """What a strategy has against the same ranks on GPUs."""
    from components.precision import Precision
    from train.cell import cell_of
    from train.kinds import build_kind, build_parallel

    config = plan.config
    parallel = build_parallel(config)
    precision: Precision = build_kind(Precision, config.precision, "precision")
    parallel.check(
        cell_of(config, precision, "cuda", plan.world_size, plan.local_world_size, plan.model)
    )
