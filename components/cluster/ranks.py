"""One process's place among the ranks of a run, and how it joins them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from components.cluster.cluster import Cluster


@dataclass(frozen=True)
class Ranks:
    """Who this process is.

    Attributes:
        rank, world_size: this process among all.
        local_rank: this process among those of its node.
        device: where it computes.
    """

    rank: int
    world_size: int
    local_rank: int
    device: torch.device

    @property
    def main(self) -> bool:
        """Whether this rank writes the record."""
        return self.rank == 0


def own_ranks(cluster: Cluster) -> Ranks:
    """This process's place, from the variables that every launcher sets."""
    local_rank = int(os.environ["LOCAL_RANK"])
    kind = cluster.device_type()
    # A scheduler may show each process its own GPU alone, which then is number 0.
    index = 0 if kind == "cuda" and torch.cuda.device_count() == 1 else local_rank
    return Ranks(
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        local_rank=local_rank,
        device=torch.device(kind, index) if kind == "cuda" else torch.device("cpu"),
    )


def join(cluster: Cluster, ranks: Ranks, store: dist.Store | None = None) -> None:
    """Form the default process group; waits until all ranks are there.

    Args:
        store: what the ranks already share; None finds it through the environment.
    """
    if ranks.device.type == "cuda":
        torch.cuda.set_device(ranks.device)
    backend = cluster.backend_name()
    dist.init_process_group(
        backend=backend,
        store=None if store is None else dist.PrefixStore("group", store),
        rank=ranks.rank if store is not None else -1,
        world_size=ranks.world_size if store is not None else -1,
        timeout=timedelta(seconds=cluster.timeout_s),
        device_id=ranks.device if backend == "nccl" else None,
    )


def leave() -> None:
    """Take the process group down once all ranks are done with it."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def all_agree(ranks: Ranks, vote: bool) -> bool:
    """Whether every rank votes yes. Call on all ranks."""
    if ranks.world_size == 1:
        return vote
    votes = torch.tensor(int(vote), device=ranks.device)
    dist.all_reduce(votes, op=dist.ReduceOp.MIN)
    return bool(votes.item())


def sum_over_ranks(ranks: Ranks, value: int) -> int:
    """The sum of every rank's value. Call on all ranks."""
    if ranks.world_size == 1:
        return value
    total = torch.tensor(value, device=ranks.device)
    dist.all_reduce(total)
    return int(total.item())
