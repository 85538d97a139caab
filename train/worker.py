"""One rank's process: who it is, where its words go, and how its end is told."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from components.cluster.cluster import Cluster
from components.cluster.handshake import gang_store
from components.cluster.joined import Joined
from components.cluster.place import Place
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.ranks import join, own_ranks
from components.cluster.roll_call import prepare_together
from components.logger.rank_logs import RankLogs
from train import failure
from train.check.before_run import check_ranks
from train.deterministic import set_deterministic
from train.failure import Failure
from train.health import stacks
from train.health.sight import place_path
from train.loop import Progress
from train.out_of_memory import advice
from train.targets import build
from train.train import train


def run_rank(gang: Joined, folder: str, interface: str | None, attempt: int) -> None:
    """Entry of a process that our own launcher has started. Ends the process on failure."""
    notice = Notice()
    notice.install()
    failed = train_in_process(Path(folder), interface, gang, attempt, notice)
    if failed is not None:
        # Not sys.exit: destructors of a process group whose peers are gone may never return.
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(PREEMPTED if failed.kind == "preempted" else 1)


def train_in_process(
    folder: Path, interface: str | None, gang: Joined, attempt: int, notice: Notice
) -> Failure | None:
    """Train as one rank; how that failed, which stands in the run's folder too, or None.

    Args:
        interface: this node's network interface towards the others; None leaves it open.
        gang: this process's place.
        attempt: which start of this run it is, from 1.
        notice: whether this process has been warned that it is to end soon.
    """
    progress = Progress()
    config = DictConfig({})
    try:
        loaded = OmegaConf.load(folder / "config.yaml")
        assert isinstance(loaded, DictConfig)
        config = loaded
        os.environ.update(gang.variables())
        logs = RankLogs(folder, gang.rank)
        stacks.answer(folder, gang.rank)
        progress.place = Place(place_path(folder, gang.rank))
        cluster: Cluster = build(config.cluster, "cluster")
        os.environ.update(cluster.environment(interface))
        set_deterministic(config.deterministic)
        torch.set_num_threads(cluster.threads(gang.local_world_size))
        torch.set_float32_matmul_precision(
            "high" if config.precision.get("tf32", False) else "highest"
        )
        ranks = own_ranks(cluster)
        data = build(config.data, "data")
        store = gang_store(gang, cluster.start_timeout_s)
        prepare_together(store, gang, data.prepare, cluster.start_timeout_s)
        join(cluster, ranks, store)
        if cluster.check:
            check_ranks(folder, cluster, ranks, gang)
        train(config, folder, cluster, ranks, data, logs.console, progress, attempt, notice)
        progress.place.remove()
        stacks.clear(folder, gang.rank)
    except BaseException as error:  # sys.exit in a model ends the run too
        further = advice(config, progress) if failure.kind_of(error) == "out_of_memory" else ""
        return failure.record(folder, gang.rank, error, progress.step, further, attempt)
    return None
