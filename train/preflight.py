"""Everything that can be known to be wrong before a process starts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from omegaconf import DictConfig, open_dict

from components.checkpoint import folders
from components.checkpoint.checkpoint import Checkpoint
from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.data.base import Data
from components.errors import ConfigError
from components.model.compiled import refuse_without_compiler
from components.parallel.base import Parallel, refuse_half_parameters
from components.precision import Precision
from train import sizes
from train.auto import settled
from train.cell import cell_of, refuse_several, sizes_of
from train.elastic_sizes import check_elastic, sizes_by_count
from train.fitting import Here
from train.kinds import build_kind, build_loggers, build_parallel
from train.memory_check import check_memory
from train.meta_model import on_meta
from train.optimizer_trial import try_optimizer
from train.placement import placed
from train.run_plan import Plan


def preflight(config: DictConfig, joined: Joined | None, folder: Path) -> Plan:
    """Check a composed config, and work out what it leaves open.

    Builds every component but the data set's content: options are checked by
    their constructors, the model stands on the meta device.

    Args:
        config: resolved, every `_target_` checked already.
        joined: the gang that an outside launcher has started; None when we start it.
        folder: where the run will land, for the space on its disk.

    Raises:
        ConfigError: for the first thing that cannot be.
    """
    config, choice = settled(config, joined, folder)
    cluster: Cluster = build_kind(Cluster, config.cluster, "cluster")
    precision: Precision = build_kind(Precision, config.precision, "precision")
    parallel = build_parallel(config)
    build_kind(Data, config.data, "data")
    checkpoint: Checkpoint = build_kind(Checkpoint, config.checkpoint, "checkpoint")
    if checkpoint.enabled:
        parallel.check_saving()
    build_loggers(config)
    model = on_meta(config)
    refuse_half_parameters(model, precision)
    try_optimizer(config, model, cluster.device_type())

    cluster, local_world_size, world_size = _ranks(cluster, parallel, config, joined)
    device = cluster.device_type()
    if config.compile:
        refuse_without_compiler(device)
    cell = cell_of(config, precision, device, world_size, local_world_size, model)
    by_count: dict[int, sizes.Sizes] = {}
    if cluster.elastic:
        check_elastic(cluster, checkpoint, config)
        by_count = sizes_by_count(config, parallel, cell, cluster)
    step = by_count[cluster.nnodes] if by_count else sizes_of(config, parallel, cell)
    parameters = sum(p.numel() for p in model.parameters())
    _check_disk(folder, parameters, checkpoint)
    found, unforeseen = None, ""
    if config.memory_check is not None:
        nodes = min(by_count, default=cluster.nnodes)  # the fewest have the most to hold
        here = Here(device, local_world_size, nodes, by_count.get(nodes, step), cluster.elastic)
        found, unforeseen = check_memory(config, precision, parallel, here)

    config = config.copy()
    with open_dict(config):
        config.global_batch_size = step.global_batch_size
        config.micro_batch_size = step.micro_batch_size
        config.accumulation = step.accumulation
        config.cluster.nproc_per_node = local_world_size
        if not cluster.elastic:
            config.cluster.nnodes = cluster.nnodes
        if cluster.nnodes > 1:  # an outside launcher's, where the config has none
            config.cluster.rdzv_endpoint = cluster.rdzv_endpoint
    return Plan(
        config=config,
        cluster=cluster,
        local_world_size=local_world_size,
        world_size=world_size,
        device=device,
        backend=cluster.backend_name(),
        sizes=step,
        parameters=parameters,
        precision=precision.name,
        parallel=parallel.name,
        model=model,
        by_count=by_count,
        forecast=found,
        unforeseen=unforeseen,
        choice=choice,
    )


def _ranks(
    cluster: Cluster, parallel: Parallel, config: DictConfig, joined: Joined | None
) -> tuple[Cluster, int, int]:
    """The cluster with the number of nodes that holds, ranks on this node, and ranks in all."""
    cluster, local, world = placed(cluster, config.cluster, parallel.one_process, joined)
    asked = config.cluster.nproc_per_node
    nodes = config.cluster.nnodes if cluster.elastic else cluster.nnodes
    asking = f"cluster.nproc_per_node={asked} and cluster.nnodes={nodes} ask for"
    refuse_several(parallel, world, f"{joined.launcher} started" if joined else asking)
    return cluster, local, world


def _check_disk(folder: Path, parameters: int, checkpoint: Checkpoint) -> None:
    """The folder must take files and, at least, weights and checkpoints without optimizer state."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ConfigError(
            f"hydra.run.dir={folder}: nothing can be written in {existing} ({error.strerror}). "
            "Set hydra.run.dir to a folder of yours."
        ) from error
    # One checkpoint more than is kept is there while it is written; a run that goes on has some.
    kept = checkpoint.keep_last + checkpoint.keep_best + 1 if checkpoint.enabled else 0
    copies = max(kept - len(folders.found(folder)), 0) + checkpoint.save_weights
    free, needed = shutil.disk_usage(existing).free, 4 * parameters * copies
    if free < needed:
        raise ConfigError(
            f"hydra.run.dir={folder}: its disk has {free / 1e6:,.1f} MB free, and the weights of "
            f"{parameters:,} parameters alone take {needed / 1e6:,.1f} MB, in checkpoint.keep_last="
            f"{checkpoint.keep_last} checkpoints, one being written and the final weights. Make "
            "room, set hydra.run.dir to another disk, or take checkpoint=weights."
        )
