"""What Slurm tells a process of its place in a job, and what of it cannot hold together.

`srun` sets variables for each task of a step; `sbatch` sets those of the job, in the batch script
too, which is no task of any step.

Source: the manual pages sbatch(1) and srun(1), sections OUTPUT ENVIRONMENT VARIABLES.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from components.cluster.variables import below, number
from components.errors import ConfigError

PORTS = range(20000, 30000)
"""Where the rendezvous port of a step is taken from, by job and step."""

STEP_STRIDE = 1009
"""Between the ports of two steps of a job: the next job's first step has the next port."""

INTERACTIVE = "4294967290"
"""SLURM_STEP_ID of the shell that salloc may open on the first node: no task of anybody's."""

SOURCES = {
    "nnodes": "SLURM_STEP_NUM_NODES",
    "nproc_per_node": "SLURM_GPUS_ON_NODE",
    "node_rank": "SLURM_NODEID",
    "rdzv_endpoint": "SLURM_STEP_NODELIST and SLURM_JOB_ID",
}
"""The keys of `cluster` that a step's variables say, with the variable or variables for each."""

HERE = "srun --ntasks-per-node=1 python -m train cluster=slurm"


def in_step(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether srun started this process, as a task of a step."""
    return (
        environ.get("SLURM_STEP_ID", INTERACTIVE) != INTERACTIVE
        and environ.get("SLURM_STEP_NODELIST", "") != ""
        and "SLURM_PROCID" in environ
    )


def tasks(environ: Mapping[str, str]) -> tuple[str, int]:
    """The variable that says how many tasks there are, a step's before its job's, and what it says.

    Raises:
        ConfigError: when it is no number.
    """
    name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"
    return name, number(environ, name, 1, low=1)


def nodes(environ: Mapping[str, str]) -> tuple[str, int]:
    """The same for nodes.

    Raises:
        ConfigError: when it is no number.
    """
    name = "SLURM_STEP_NUM_NODES" if "SLURM_STEP_NUM_NODES" in environ else "SLURM_NNODES"
    return name, number(environ, name, 1, low=1)


def endpoint(environ: Mapping[str, str]) -> tuple[str, int]:
    """Host and port where the ranks of a step meet, the same for all its tasks.

    Raises:
        ConfigError: when job or step are no numbers.
    """
    job, step = number(environ, "SLURM_JOB_ID", 0), number(environ, "SLURM_STEP_ID", 0)
    host = first_host(environ.get("SLURM_STEP_NODELIST", "localhost"))
    return host, PORTS[(job + STEP_STRIDE * step) % len(PORTS)]


def first_host(nodelist: str) -> str:
    """The first host of Slurm's compact list: `gpu[03-05,9],login` gives `gpu03`.

    Raises:
        ConfigError: for what is no such list.
    """
    match = re.match(r"([^\[,]+)(?:\[([^\],-]+))?", nodelist)
    if match is None:
        raise ConfigError(
            f"{nodelist} in SLURM_STEP_NODELIST is no list of hosts, as in gpu[03-05,9],login."
        )
    return match.group(1) + (match.group(2) or "")


def check_consistent(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse variables of Slurm that contradict each other.

    Raises:
        ConfigError: with both numbers and the line to change.
    """
    if "SLURM_NTASKS" not in environ:
        return
    (task_name, ntasks), (node_name, nnodes) = tasks(environ), nodes(environ)
    if "SLURM_PROCID" in environ:
        below(environ, "SLURM_PROCID", task_name)
    each = number(environ, "SLURM_NTASKS_PER_NODE", 0)
    if each and ntasks != each * nnodes:
        raise ConfigError(
            f"{task_name}={ntasks}, but SLURM_NTASKS_PER_NODE={each} on {node_name}={nnodes} make "
            f"{each * nnodes}: which of them holds cannot be told. Give the job and its srun the "
            f"same: #SBATCH --ntasks-per-node={max(1, ntasks // nnodes)}, or "
            f"srun --ntasks={each * nnodes}."
        )
    if ntasks % nnodes and in_step(environ):
        raise ConfigError(
            f"{task_name}={ntasks} on {node_name}={nnodes}: every node has to have as many tasks. "
            f"Write srun --ntasks-per-node={-(-ntasks // nnodes)}."
        )


def refuse_unused(nnodes: int, ranks: int, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse to start ranks by this command alone where Slurm has been asked for others.

    Args:
        nnodes: nodes on which this command runs, as its config says.
        ranks: that it starts on this node.

    Raises:
        ConfigError: with both numbers and the line to change.
    """
    if in_step(environ):
        return
    # Not the step's: in the shell of an allocation that is the shell's own.
    granted, asked = number(environ, "SLURM_NNODES", 1), number(environ, "SLURM_NTASKS", 1)
    cure = (
        f"Write {HERE} ... with #SBATCH --ntasks-per-node=1 for a command a node, or srun without "
        "cluster=slurm for a task a rank"
    )
    if granted != 1 and granted != nnodes:
        raise ConfigError(
            f"SLURM_NNODES={granted} were allocated, and this command, which srun has not started, "
            f"runs on cluster.nnodes={nnodes}. {cure}; for one node change to #SBATCH --nodes=1."
        )
    elsewhere = "SLURM_PROCID" not in environ  # the shell of salloc, on the machine it was typed at
    if asked > 1 and (elsewhere or asked != ranks * nnodes):
        raise ConfigError(
            f"SLURM_NTASKS={asked} were asked for, and srun has started none of them: this command "
            f"is one process with {ranks * nnodes} ranks of its own. {cure}; for the ranks of this "
            f"command change to #SBATCH --ntasks=1."
        )


def step_value(key: str, environ: Mapping[str, str] = os.environ) -> int | str:
    """What a step's variables say of one key of `cluster`; `SOURCES` has them.

    `nproc_per_node` is `auto` where the job has asked for no GPUs.

    Raises:
        ConfigError: when a variable is missing, or is no number of its range.
    """
    return READERS[key](environ)


def check_one_task(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a step that has not one task a node, each of which is to start its node's ranks.

    Raises:
        ConfigError: with both numbers and the line to change.
    """
    (task_name, ntasks), (node_name, nnodes) = tasks(environ), nodes(environ)
    if ntasks != nnodes:
        raise ConfigError(
            f"cluster=slurm takes one task a node, whose command starts the ranks there, but "
            f"{task_name}={ntasks} and {node_name}={nnodes}. Write #SBATCH --ntasks-per-node=1 and "
            "srun --ntasks-per-node=1, or leave cluster=slurm out for a task a rank."
        )


def _endpoint(environ: Mapping[str, str]) -> str:
    _present(environ, "SLURM_STEP_NODELIST")
    _present(environ, "SLURM_JOB_ID")
    return "{}:{}".format(*endpoint(environ))


def _nproc_per_node(environ: Mapping[str, str]) -> int | str:
    name = SOURCES["nproc_per_node"]
    return number(environ, name, low=1) if name in environ else "auto"


def _nnodes(environ: Mapping[str, str]) -> int:
    _present(environ, SOURCES["nnodes"])
    return nodes(environ)[1]


def _node_rank(environ: Mapping[str, str]) -> int:
    _present(environ, SOURCES["node_rank"])
    return number(environ, SOURCES["node_rank"])


READERS: dict[str, Callable[[Mapping[str, str]], int | str]] = {
    "nnodes": _nnodes,
    "nproc_per_node": _nproc_per_node,
    "node_rank": _node_rank,
    "rdzv_endpoint": _endpoint,
}


def _present(environ: Mapping[str, str], name: str) -> None:
    if not environ.get(name):
        raise ConfigError(
            f"{name} is missing from the environment, where srun sets it for each of its tasks. "
            f"In a batch script write {HERE} ...; elsewhere take cluster=single_node, or submit "
            "the run by hydra/launcher=slurm."
        )
