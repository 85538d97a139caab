"""A pod's place, from the variables that Kubeflow's trainer sets."""

from __future__ import annotations

import pytest

from components.cluster.pod import SOURCES, pod_value
from components.errors import ConfigError

POD = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "8",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29400",
}


def test_a_pod_s_variables() -> None:
    assert [pod_value(key, POD) for key in SOURCES] == [2, 8, 1, "job-node-0-0.job:29400"]


def test_a_job_that_leaves_its_ranks_open() -> None:
    assert pod_value("nproc_per_node", {**POD, "PET_NPROC_PER_NODE": "auto"}) == "auto"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("PET_NNODES", "nnodes"),
        ("PET_NPROC_PER_NODE", "nproc_per_node"),
        ("PET_NODE_RANK", "node_rank"),
        ("PET_MASTER_ADDR", "rdzv_endpoint"),
        ("PET_MASTER_PORT", "rdzv_endpoint"),
    ],
)
def test_a_variable_is_missing(name: str, key: str) -> None:
    for without in ({k: v for k, v in POD.items() if k != name}, {**POD, name: ""}):
        with pytest.raises(ConfigError, match=f"{name} is missing.*cluster=single_node"):
            pod_value(key, without)


@pytest.mark.parametrize(
    ("key", "name", "text", "said"),
    [
        ("nnodes", "PET_NNODES", "0", "must be a whole number, 1 or more. Set numNodes"),
        ("nnodes", "PET_NNODES", "1:2", "must be a whole number, 1 or more. Set numNodes"),
        ("nproc_per_node", "PET_NPROC_PER_NODE", "gpu", "1 or more. Set numProcPerNode"),
        ("node_rank", "PET_NODE_RANK", "-1", "must be a whole number, 0 or more."),
        ("rdzv_endpoint", "PET_MASTER_PORT", "x", "must be a whole number, 1 or more."),
    ],
)
def test_no_number(key: str, name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}={text} in the environment: .*{said}"):
        pod_value(key, {**POD, name: text})
