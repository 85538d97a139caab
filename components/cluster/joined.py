"""Processes that somebody else has started: torchrun or srun.

Both tell each process who it is through environment variables. srun's are
turned into torchrun's, the names that torch and DeepSpeed read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from components.errors import ConfigError

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
        world = _number(environ, "WORLD_SIZE", low=1)
        local = _number(environ, "LOCAL_WORLD_SIZE", 1, low=1)
        return Joined(
            launcher="torchrun",
            rank=_below(environ, "RANK", "WORLD_SIZE"),
            world_size=world,
            local_rank=_number(environ, "LOCAL_RANK", 0),
            local_world_size=local,
            nnodes=_number(environ, "GROUP_WORLD_SIZE", max(1, world // local), low=1),
            host=environ["MASTER_ADDR"],
            port=_number(environ, "MASTER_PORT", low=1),
            hosted=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            attempt=_number(environ, "TORCHELASTIC_RESTART_COUNT", 0),
        )
    # SLURM_STEP_ID is absent in the batch script itself, which is no task of a step.
    if "SLURM_PROCID" in environ and _in_step(environ) and _number(environ, "SLURM_NTASKS", 1) > 1:
        tasks = _number(environ, "SLURM_NTASKS")
        nodes = _number(environ, "SLURM_NNODES", 1, low=1)
        job = _number(environ, "SLURM_JOB_ID", 0)
        return Joined(
            launcher="srun",
            rank=_below(environ, "SLURM_PROCID", "SLURM_NTASKS"),
            world_size=tasks,
            local_rank=_number(environ, "SLURM_LOCALID", 0),
            local_world_size=max(1, tasks // nodes),
            nnodes=nodes,
            host=first_host(environ.get("SLURM_STEP_NODELIST", "localhost")),
            port=SLURM_PORTS[job % len(SLURM_PORTS)],
            hosted=False,
        )
    if _number(environ, "WORLD_SIZE", 1) > 1:
        absent = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in environ]
        raise ConfigError(
            f"WORLD_SIZE={environ['WORLD_SIZE']} in the environment says that a launcher started "
            f"this process, but it gave no {', '.join(absent)}. Set RANK, WORLD_SIZE, MASTER_ADDR "
            "and MASTER_PORT for each process, or unset WORLD_SIZE."
        )
    return None


def _number(environ: Mapping[str, str], name: str, default: int | None = None, low: int = 0) -> int:
    text = environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or int(text) < low:
        given = f"{name} is missing from" if text is None else f"{name}={text} in"
        raise ConfigError(
            f"{given} the environment: a launcher gives it as a whole number, {low} or more. "
            "Start the run by torchrun or srun, or unset the launcher's variables."
        )
    return int(text)


def _below(environ: Mapping[str, str], rank: str, size: str) -> int:
    """A rank, which must be one of the gang's."""
    number = _number(environ, rank)
    if number >= _number(environ, size):
        raise ConfigError(
            f"{rank}={environ[rank]} in the environment is not below {size}={environ[size]}: "
            f"ranks count from 0 to {size} - 1."
        )
    return number


def _in_step(environ: Mapping[str, str]) -> bool:
    return "SLURM_STEP_ID" in environ and environ.get("SLURM_STEP_NODELIST", "") != ""


def first_host(nodelist: str) -> str:
    """The first host of Slurm's compact list: `gpu[03-05,9],login` gives `gpu03`."""
    match = re.match(r"([^\[,]+)(?:\[([^\],-]+))?", nodelist)
    assert match is not None, nodelist
    return match.group(1) + (match.group(2) or "")
