"""One rank of a check: it joins the others, measures, and hands in what it found."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from components.cluster.cluster import Cluster
from components.cluster.control import Control
from components.cluster.handshake import gang_store
from components.cluster.joined import Joined
from components.cluster.preemption import Notice
from components.cluster.ranks import Ranks, join, leave, own_ranks
from components.device import Device
from components.logger.rank_logs import RankLogs
from train import failure
from train.check.attained import attained
from train.check.board import Board
from train.check.clocks import time_offset
from train.check.collectives import time_collectives
from train.check.compute import copy_rate, matmul_rates, operation_time
from train.check.limits import FULL, QUICK, Limits
from train.check.links import time_links
from train.check.machine import describe
from train.failure import Failure
from train.plan.measured_device import TYPES
from train.targets import build


def run_rank(gang: Joined, folder: str, interface: str | None, attempt: int) -> None:
    """Entry of a process that our own launcher has started. Ends the process on failure."""
    Notice().install()  # a warning ends the controller, and that its ranks
    try:
        RankLogs(Path(folder), gang.rank)
        config = OmegaConf.load(Path(folder) / "config.yaml")
        assert isinstance(config, DictConfig)
        take_part(gang, config, interface)
    except BaseException as error:
        failure.record(Path(folder), gang.rank, error)
        # Not sys.exit: destructors of a process group whose peers are gone may never return.
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(1)


def take_part(gang: Joined, config: DictConfig, interface: str | None) -> None:
    """Measure as one rank, and hand in what was found.

    Args:
        config: as `CheckPlan.config`.
        interface: this node's network interface towards the others; None leaves it open.
    """
    os.environ.update(gang.variables())
    cluster: Cluster = build(config.cluster, "cluster")
    os.environ.update(cluster.environment(interface))
    torch.set_num_threads(cluster.threads(gang.local_world_size))
    store = gang_store(gang, cluster.start_timeout_s)
    board, limits = Board(store), QUICK if config.quick else FULL
    board.say(gang.rank, "joining the others")
    ranks = own_ranks(cluster)
    found = describe(ranks, gang.rank // gang.local_world_size)
    join(cluster, ranks, store)
    control = Control(ranks, cluster.timeout_s)
    found |= measure(control, ranks, limits, lambda stage: board.say(ranks.rank, stage))
    board.hand_in(gang.rank, found)
    leave()


def measure(
    control: Control, ranks: Ranks, limits: Limits, say: Callable[[str], None]
) -> dict[str, Any]:
    """What this rank finds of itself and its links. Call on all ranks.

    Args:
        say: is told what comes next.
    """
    say("clocks")
    offset_s, uncertainty_s = time_offset(control)
    say("matrix products")
    flops = matmul_rates(control, limits)
    say("copies of memory")
    copied = copy_rate(control, limits)
    operation_s = operation_time(control)
    say("a small model")
    own = Device(
        name="this rank's",
        memory_bytes=1.0,
        flops={TYPES[name]: rate for name, rate in flops.items()},
        memory_bytes_per_s=2 * copied,
        link_bytes_per_s=1.0,
        network_bytes_per_s=1.0,
        per_node=1,
        operation_s=operation_s,
    )
    shares = attained(control, own)
    several = ranks.world_size > 1
    return {
        "clock_offset_s": offset_s,
        "clock_uncertainty_s": uncertainty_s,
        "flops": flops,
        "copy_bytes_per_s": copied,
        "operation_s": operation_s,
        "attained": {name: shares[TYPES[name]] for name in flops},
        "collectives": time_collectives(control, limits, say) if several else [],
        "links": time_links(control, limits, say) if several else [],
    }


def failure_of(rank: int, error: BaseException) -> Failure:
    """The failure of a rank that has no folder to write it into."""
    kind = failure.kind_of(error)
    cause = str(error) if kind == "refused" else f"{type(error).__name__}: {error}"
    return Failure(rank, kind, cause, time.time())
