"""`cluster=kubernetes`: what the pod says, what the config says, and where they differ."""

from __future__ import annotations

import pytest

from components.errors import ConfigError
from train import places
from train.command_line import compose_jobs, parse

POD = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "8",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29400",
}


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in POD.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in POD:
        monkeypatch.delenv(name, raising=False)


def check(*words: str) -> None:
    (job,) = compose_jobs(parse(["run_id=mine", *words]))
    places.check(job.composed)


def test_the_pod_says_how_many_and_which(pod: None) -> None:
    (job,) = compose_jobs(parse(["cluster=kubernetes", "run_id=mine"]))
    cluster = job.config.cluster
    assert (cluster.nnodes, cluster.nproc_per_node, cluster.node_rank) == (2, 8, 1)
    assert cluster.rdzv_endpoint == "job-node-0-0.job:29400"
    # Below the 30 s that Kubernetes leaves between its two signals.
    assert cluster.preempt_grace_s < 30


def test_a_config_that_agrees(pod: None) -> None:
    check("cluster=kubernetes", "cluster.nnodes=2", "cluster.nproc_per_node=8")


def test_the_config_says_what_the_pod_leaves_open(
    pod: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PET_NPROC_PER_NODE", "auto")
    check("cluster=kubernetes", "cluster.nproc_per_node=4")


@pytest.mark.parametrize(
    ("word", "both"),
    [
        ("cluster.nnodes=4", "cluster.nnodes=4, but PET_NNODES=2"),
        ("cluster.nproc_per_node=2", "cluster.nproc_per_node=2, but PET_NPROC_PER_NODE=8"),
        ("cluster.nproc_per_node=auto", "cluster.nproc_per_node=auto, but PET_NPROC_PER_NODE=8"),
        ("cluster.node_rank=0", "cluster.node_rank=0, but PET_NODE_RANK=1"),
        (
            "cluster.rdzv_endpoint=a:1",
            "a:1, but PET_MASTER_ADDR:PET_MASTER_PORT=job-node-0-0.job:29400",
        ),
    ],
)
def test_a_config_that_disagrees(pod: None, word: str, both: str) -> None:
    with pytest.raises(ConfigError, match=both):
        check("cluster=kubernetes", word)


def test_outside_a_pod_all_that_is_missing_is_told_at_once(no_pod: None) -> None:
    with pytest.raises(ConfigError) as error:
        places.check(parse(["cluster=kubernetes"]).base)
    told = str(error.value)
    assert "5 mistakes" not in told  # address and port make one key
    for name in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR"):
        assert f"{name} is missing from the environment" in told


@pytest.mark.parametrize("cluster", ["single_node", "multi_node"])
def test_another_cluster_in_a_pod_is_the_user_s_own(pod: None, cluster: str) -> None:
    places.check(parse([f"cluster={cluster}"]).base)
