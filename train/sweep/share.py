"""A machine's cores and GPUs, shared out among the jobs that run at once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypeVar

from components.cluster.cluster import Cluster
from components.errors import ConfigError
from train.command_line import Job

T = TypeVar("T")

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Share:
    """What one slot may use.

    Attributes:
        cores: numbers of CPU cores.
        gpus: as `CUDA_VISIBLE_DEVICES` names them; None where no job computes on GPUs.
    """

    cores: tuple[int, ...]
    gpus: tuple[str, ...] | None

    def take(self) -> None:
        """From now on this process, and those that it starts, use nothing else."""
        os.sched_setaffinity(0, self.cores)
        if self.gpus is not None:
            os.environ[VISIBLE] = ",".join(self.gpus)


def shares(slots: int, jobs: list[Job]) -> list[Share]:
    """One share for each slot, all of the same size.

    Raises:
        ConfigError: when there is not enough for all, or a job has more ranks than its share
            has room for.
    """
    from train.kinds import build_kind

    clusters = [build_kind(Cluster, job.config.cluster, "cluster") for job in jobs]
    on_gpu = [cluster.device_type() == "cuda" for cluster in clusters]
    cores = tuple(sorted(os.sched_getaffinity(0)))
    gpus = _gpus() if any(on_gpu) else None
    for things, noun in ((cores, "cores"), (gpus or cores, "GPUs")):
        if len(things) < slots:
            raise ConfigError(
                f"sweep.slots={slots}: this machine has {len(things)} {noun}. "
                f"Nearest: sweep.slots={len(things)}."
            )
    for job, cluster, gpu in zip(jobs, clusters, on_gpu, strict=True):
        _check_room(job, cluster, slots, len(gpus) if gpu and gpus else len(cores), gpu)
    each = [_part(cores, slots, slot) for slot in range(slots)]
    return [
        Share(part, None if gpus is None else _part(gpus, slots, slot))
        for slot, part in enumerate(each)
    ]


def _check_room(job: Job, cluster: Cluster, slots: int, there: int, gpu: bool) -> None:
    from train.targets import build

    parallel = build(job.config.parallel, "parallel")
    room, noun = there // slots, "GPUs" if gpu else "cores"
    if gpu and cluster.nproc_per_node == "auto":
        return  # one a GPU of its share
    ranks = cluster.local_world_size(parallel.one_process)
    if ranks > room:
        raise ConfigError(
            f"sweep.slots={slots} leaves each job {room} of {there} {noun}, and {job.label} starts "
            f"{ranks} ranks (cluster.nproc_per_node={cluster.nproc_per_node}). Nearest: "
            f"sweep.slots={max(1, there // ranks)}, or cluster.nproc_per_node={room}."
        )


def _gpus() -> tuple[str, ...]:
    import torch

    named = os.environ.get(VISIBLE)
    if named is not None:
        return tuple(name.strip() for name in named.split(",") if name.strip())
    return tuple(str(number) for number in range(torch.cuda.device_count()))


def _part(things: tuple[T, ...], slots: int, slot: int) -> tuple[T, ...]:
    size = len(things) // slots
    return things[slot * size : (slot + 1) * size]
