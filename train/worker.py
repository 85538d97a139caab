"""One rank's process: who it is, where its words go, and how its end is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from components.cluster.cluster import Cluster
from components.cluster.gang import die_with_controller
from components.cluster.handshake import gang_store
from components.cluster.joined import Joined
from components.cluster.ranks import join, own_ranks
from components.logger.rank_logs import RankLogs
from train import failure
from train.loop import Progress
from train.seeds import set_deterministic
from train.targets import build
from train.train import train

REFUSED, FAILED = 2, 1


def run_rank(folder: str, interface: str | None) -> None:
    """Entry of a process that our own launcher has started. Ends the process on failure."""
    die_with_controller()
    code = train_in_process(Path(folder), interface)
    if code:
        # Not sys.exit: destructors of a process group whose peers are gone may never return.
        sys.stdout.flush()
        os._exit(code)


def train_in_process(folder: Path, interface: str | None, gang: Joined | None = None) -> int:
    """Train as one rank; the exit code. Failures are written into the run's folder.

    Args:
        interface: this node's network interface towards the others; None leaves it open.
        gang: the outside launcher's gang that this process belongs to, if any.
    """
    config = OmegaConf.load(folder / "config.yaml")
    assert isinstance(config, DictConfig)
    if gang is not None:
        os.environ.update(gang.variables())
    rank = int(os.environ["RANK"])
    logs = RankLogs(folder, rank)
    progress = Progress()
    try:
        cluster: Cluster = build(config.cluster, "cluster")
        os.environ.update(cluster.environment(interface))
        set_deterministic(config.deterministic)
        torch.set_num_threads(cluster.threads(int(os.environ["LOCAL_WORLD_SIZE"])))
        torch.set_float32_matmul_precision(
            "high" if config.precision.get("tf32", False) else "highest"
        )
        ranks = own_ranks(cluster)
        data = build(config.data, "data")
        data.prepare()
        store = gang_store(gang, cluster.start_timeout_s) if gang is not None else None
        join(cluster, ranks, store)
        train(config, folder, cluster, ranks, data, logs.console, progress)
    except Exception as error:
        told = failure.record(folder, rank, error, progress.step, _advice(error, config))
        return REFUSED if told.kind == "refused" else FAILED
    return 0


def _advice(error: Exception, config: DictConfig) -> str:
    """What to try after this failure, if anything is known."""
    if failure.kind_of(error) != "out_of_memory":
        return ""
    micro, accumulation = config.micro_batch_size, config.accumulation
    smaller = (
        f"micro_batch_size={micro // 2} accumulation={accumulation * 2} (the same global batch)"
        if micro % 2 == 0
        else "a smaller micro_batch_size with more accumulation"
    )
    return (
        f"\nA micro-batch of {micro} samples did not fit. Try {smaller}, "
        "activation_checkpointing=non_reentrant, or parallel=fsdp."
    )
