"""Processes that somebody else has started: torchrun or srun.

Both tell each process who it is through environment variables. srun's are
turned into torchrun's, the names that torch and DeepSpeed read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from components.cluster import slurm
from components.cluster.variables import below, number
from components.errors import ConfigError


@dataclass(frozen=True)
class Joined:
    """A process's place in a gang, whoever started it.

    Attributes:
        launcher: `torchrun` or `srun`, for messages; `train` is our own.
        rank, world_size, local_rank, local_world_size: this process among all, and on its node.
        nnodes: nodes of the gang.
        host, port: where the ranks' store is.
        hosted: the launcher itself serves the store; otherwise rank 0 does.
        attempt: tells gangs in the same store apart; an outside launcher's count its restarts.
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
    """Who this process is when torchrun or srun started it; None when nobody did.

    Raises:
        ConfigError: when variables are not whole numbers, contradict each other, or
            name a gang without saying where this process stands in it.
    """
    if "RANK" in environ and "WORLD_SIZE" in environ and "MASTER_ADDR" in environ:
        world = number(environ, "WORLD_SIZE", low=1)
        local = number(environ, "LOCAL_WORLD_SIZE", 1, low=1)
        return Joined(
            launcher="torchrun",
            rank=below(environ, "RANK", "WORLD_SIZE"),
            world_size=world,
            local_rank=number(environ, "LOCAL_RANK", 0),
            local_world_size=local,
            nnodes=number(environ, "GROUP_WORLD_SIZE", max(1, world // local), low=1),
            host=environ["MASTER_ADDR"],
            port=number(environ, "MASTER_PORT", low=1),
            hosted=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            attempt=number(environ, "TORCHELASTIC_RESTART_COUNT", 0),
        )
    slurm.check_consistent(environ)
    name, tasks = slurm.tasks(environ)
    if slurm.in_step(environ) and tasks > 1:
        _, nodes = slurm.nodes(environ)
        host, port = slurm.endpoint(environ)
        return Joined(
            launcher="srun",
            rank=below(environ, "SLURM_PROCID", name),
            world_size=tasks,
            local_rank=number(environ, "SLURM_LOCALID", 0),
            local_world_size=tasks // nodes,
            nnodes=nodes,
            host=host,
            port=port,
            hosted=False,
        )
    if number(environ, "WORLD_SIZE", 1) > 1:
        absent = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in environ]
        raise ConfigError(
            f"WORLD_SIZE={environ['WORLD_SIZE']} in the environment says that a launcher started "
            f"this process, but it gave no {', '.join(absent)}. Set RANK, WORLD_SIZE, MASTER_ADDR "
            "and MASTER_PORT for each process, or unset WORLD_SIZE."
        )
    return None
