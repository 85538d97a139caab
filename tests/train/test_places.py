"""`cluster=kubernetes`, `cluster=slurm`: what variables and config say, and where they differ."""

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


STEP = {
    "SLURM_JOB_ID": "5",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "a,b",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_NTASKS": "2",
    "SLURM_NNODES": "2",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
}


def test_the_step_says_which_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    (job,) = compose_jobs(parse(["cluster=slurm"]))
    cluster = job.config.cluster
    assert (cluster.nnodes, cluster.node_rank, cluster.rdzv_endpoint) == (2, 1, "a:20005")
    assert cluster.nproc_per_node == "auto"
    # Below the 30 s of KillWait, Slurm's own.
    assert cluster.preempt_grace_s < 30


@pytest.mark.parametrize(
    ("word", "both"),
    [
        ("cluster.nnodes=4", "cluster.nnodes=4, but SLURM_STEP_NUM_NODES=2"),
        ("cluster.node_rank=0", "cluster.node_rank=0, but SLURM_NODEID=1"),
        ("cluster.nproc_per_node=2", "cluster.nproc_per_node=2, but SLURM_GPUS_ON_NODE=8"),
    ],
)
def test_a_config_that_disagrees_with_the_step(word: str, both: str) -> None:
    line = parse(["cluster=slurm", word])
    with pytest.raises(ConfigError, match=both):
        places.check(line.base, {**STEP, "SLURM_GPUS_ON_NODE": "8"})


def test_a_node_s_task_is_no_rank() -> None:
    """The words of the command decide: of the other tasks none reads a config."""
    gang = places.gang_of(["parallel=fsdp"], STEP)
    assert gang is not None
    assert (gang.launcher, gang.rank) == ("srun", 1)
    assert places.gang_of(["parallel=fsdp", "cluster=slurm"], STEP) is None
    with pytest.raises(ConfigError, match="has to be typed"):
        places.refuse_untyped(parse(["cluster=slurm"]).base, gang)
    places.refuse_untyped(parse([]).base, gang)


def test_torchrun_s_ranks_are_ranks_whatever_is_typed() -> None:
    ranks = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    assert places.gang_of(["cluster=slurm"], ranks) is not None


def test_what_is_submitted_finds_its_place_later() -> None:
    """Outside any step: a stand-in is composed, and the job's file asks the node itself."""
    (job,) = compose_jobs(parse(["hydra/launcher=slurm", "cluster=slurm", "cluster.nnodes=2"]))
    assert (job.config.cluster.nnodes, job.config.cluster.node_rank) == (2, 0)
