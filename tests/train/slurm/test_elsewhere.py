"""Runs that are checked where their nodes' hardware is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from train.command_line import compose_jobs, parse
from train.run_plan import Plan
from train.slurm.elsewhere import plan_of

SMALL = ("model=mlp", "data=synthetic", "data.kind=features", "logger=none")
SLURM = "hydra/launcher=slurm"


def plan(tmp_path: Path, *words: str) -> Plan:
    line = parse([SLURM, *SMALL, *words])
    (job,) = compose_jobs(line)
    return plan_of(line.base, job, tmp_path)


def test_gpus_of_the_nodes_need_not_be_here(tmp_path: Path) -> None:
    found = plan(tmp_path, "cluster=slurm", "cluster.nnodes=2", "hydra.launcher.gpus=4")
    assert (found.local_world_size, found.world_size) == (4, 8)
    assert (found.device, found.backend) == ("cuda", "nccl")


def test_one_process_may_have_several_gpus(tmp_path: Path) -> None:
    assert plan(tmp_path, "parallel=dp", "hydra.launcher.gpus=4").world_size == 1


def test_nor_their_interfaces(tmp_path: Path) -> None:
    assert plan(tmp_path, "cluster.interface=ib77").world_size == 2


def test_ranks_are_as_many_as_slurm_will_say(tmp_path: Path) -> None:
    found = plan(tmp_path, "cluster.device=cuda", "cluster.nproc_per_node=4", "parallel=fsdp")
    assert found.world_size == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster.device=cuda",), "how many GPUs a node has is not to be seen from here"),
        (
            ("hydra.launcher.gpus=8", "cluster.nproc_per_node=4"),
            "cluster.nproc_per_node=4, but hydra.launcher.gpus=8",
        ),
        (
            ("hydra.launcher.grace_s=10",),
            "hydra.launcher.grace_s=10: Slurm's warning would come later",
        ),
        (
            (
                "cluster=multi_node",
                "cluster.node_rank=0",
                "cluster.rdzv_endpoint=a:1",
            ),
            "cluster.nnodes=2: each node has to know its place. Add cluster=slurm",
        ),
        (
            ("cluster=slurm", "cluster.nnodes=3", "cluster.nproc_per_node=1"),
            "global_batch_size=32",
        ),
        (
            ("parallel=single", "hydra.launcher.gpus=2", "cluster=slurm"),
            "lives in one process",
        ),
    ],
)
def test_what_cannot_run_there_is_refused_here(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        plan(tmp_path, *words)
    assert said in str(refusal.value)


def test_here_it_is_the_preflight_of_any_run(tmp_path: Path) -> None:
    line = parse([*SMALL, "cluster.nproc_per_node=1"])
    (job,) = compose_jobs(line)
    assert plan_of(line.base, job, tmp_path).world_size == 1
