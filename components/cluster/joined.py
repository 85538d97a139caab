"""Processes that somebody else has started: torchrun or srun.

Both tell each process who it is through environment variables. srun's are
turned into torchrun's, the names that torch and DeepSpeed read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

SLURM_PORTS = range(20000, 30000)
"""Where the rendezvous port of a Slurm step is taken from, by job id."""


@dataclass(frozen=True)
class Joined:
    """A process's place in a gang, whoever started it.

    Attributes:
        launcher: `torchrun` or `srun`, for messages; `train` is our own.
        rank, world_size, local_rank, local_world_size: this process among all, and on its node.
        nnodes: nodes of the gang.
        host, port: where the ranks' store is.
        hosted: the launcher itself serves the store; otherwise rank 0 does.
        attempt: how often the launcher has started this gang again, in the same store.
    """

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    nnodes: int
    host: str
    port: int
    hosted: bool
    attempt: int = 0

    def variables(self) -> dict[str, str]:
        """The names under which torch and DeepSpeed look these up."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.port),
        }


def joined(environ: Mapping[str, str] = os.environ) -> Joined | None:
    """Who this process is when torchrun or srun started it; None when nobody did."""
    if "RANK" in environ and "WORLD_SIZE" in environ and "MASTER_ADDR" in environ:
        world, local = int(environ["WORLD_SIZE"]), int(environ.get("LOCAL_WORLD_SIZE", 1))
        return Joined(
            launcher="torchrun",
            rank=int(environ["RANK"]),
            world_size=world,
            local_rank=int(environ.get("LOCAL_RANK", 0)),
            local_world_size=local,
            nnodes=int(environ.get("GROUP_WORLD_SIZE", max(1, world // local))),
            host=environ["MASTER_ADDR"],
            port=int(environ["MASTER_PORT"]),
            hosted=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            attempt=int(environ.get("TORCHELASTIC_RESTART_COUNT", 0)),
        )
    # SLURM_STEP_ID is absent in the batch script itself, which is no task of a step.
    if int(environ.get("SLURM_NTASKS", 1)) > 1 and "SLURM_PROCID" in environ and _in_step(environ):
        tasks, nodes = int(environ["SLURM_NTASKS"]), int(environ.get("SLURM_NNODES", 1))
        job = int(environ.get("SLURM_JOB_ID", 0))
        return Joined(
            launcher="srun",
            rank=int(environ["SLURM_PROCID"]),
            world_size=tasks,
            local_rank=int(environ.get("SLURM_LOCALID", 0)),
            local_world_size=max(1, tasks // nodes),
            nnodes=nodes,
            host=first_host(environ.get("SLURM_STEP_NODELIST", "localhost")),
            port=SLURM_PORTS[job % len(SLURM_PORTS)],
            hosted=False,
        )
    return None


def _in_step(environ: Mapping[str, str]) -> bool:
    return "SLURM_STEP_ID" in environ and environ.get("SLURM_STEP_NODELIST", "") != ""


def first_host(nodelist: str) -> str:
    """The first host of Slurm's compact list: `gpu[03-05,9],login` gives `gpu03`."""
    match = re.match(r"([^\[,]+)(?:\[([^\],-]+))?", nodelist)
    assert match is not None, nodelist
    return match.group(1) + (match.group(2) or "")
