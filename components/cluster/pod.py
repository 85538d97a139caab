"""What Kubeflow's trainer tells a pod of its place among those of a TrainJob.

The controller sets the variables that torchrun reads as its options. Here they are read for a
node's own controller, which then starts its ranks as on any node.

Source: https://www.kubeflow.org/docs/components/trainer/ (the torch policy of a runtime).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from components.errors import ConfigError

NNODES, NPROC_PER_NODE, NODE_RANK = "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"
ADDRESS, PORT = "PET_MASTER_ADDR", "PET_MASTER_PORT"

SOURCES = {
    "nnodes": NNODES,
    "nproc_per_node": NPROC_PER_NODE,
    "node_rank": NODE_RANK,
    "rdzv_endpoint": f"{ADDRESS}:{PORT}",
}
"""The keys of `cluster` that a pod's variables say, with the variable or variables for each."""


def pod_value(key: str, environ: Mapping[str, str] = os.environ) -> int | str:
    """What a pod's variables say of one key of `cluster`; `SOURCES` has them.

    `nproc_per_node` may be `auto`, where the TrainJob does not say it.

    Raises:
        ConfigError: when a variable is missing, or is no number of its range.
    """
    return READERS[key](environ)


def _nproc_per_node(environ: Mapping[str, str]) -> int | str:
    if environ.get(NPROC_PER_NODE) == "auto":
        return "auto"
    return _number(environ, NPROC_PER_NODE, low=1)


def _endpoint(environ: Mapping[str, str]) -> str:
    return f"{_text(environ, ADDRESS)}:{_number(environ, PORT, low=1)}"


READERS: dict[str, Callable[[Mapping[str, str]], int | str]] = {
    "nnodes": lambda environ: _number(environ, NNODES, low=1),
    "nproc_per_node": _nproc_per_node,
    "node_rank": lambda environ: _number(environ, NODE_RANK, low=0),
    "rdzv_endpoint": _endpoint,
}


def _text(environ: Mapping[str, str], name: str) -> str:
    text = environ.get(name)
    if not text:
        raise ConfigError(
            f"{name} is missing from the environment, where the trainer of Kubeflow sets it in "
            "each pod of a TrainJob. Elsewhere take cluster=single_node or cluster=multi_node."
        )
    return text


def _number(environ: Mapping[str, str], name: str, low: int) -> int:
    text = _text(environ, name)
    if not text.isdecimal() or int(text) < low:
        field = {NNODES: "numNodes", NPROC_PER_NODE: "numProcPerNode"}.get(name)
        cure = f" Set {field} of the TrainJob." if field else ""
        raise ConfigError(
            f"{name}={text} in the environment: must be a whole number, {low} or more.{cure}"
        )
    return int(text)
