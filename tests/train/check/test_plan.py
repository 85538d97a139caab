from __future__ import annotations

from dataclasses import replace

import pytest

from components.cluster.joined import Joined
from components.errors import ConfigError
from train.check.plan import plan_check

GANG = Joined("torchrun", 0, 6, 0, 3, nnodes=2, host="node0", port=29500, hosted=True)

NODE_0 = ("cluster=multi_node", "cluster.node_rank=0", "cluster.rdzv_endpoint=node0:29500")


def test_the_ranks_of_the_cluster_are_checked_whatever_the_strategy() -> None:
    plan = plan_check(["parallel=single", "cluster.nproc_per_node=3"], quick=True, gang=None)
    assert (plan.local_world_size, plan.world_size) == (3, 3)
    assert plan.config.cluster.nproc_per_node == 3
    assert plan.config.quick is True


def test_ranks_of_all_nodes_are_counted() -> None:
    words = ["cluster=multi_node", "cluster.node_rank=1", "cluster.rdzv_endpoint=node0:29500"]
    plan = plan_check([*words, "cluster.nproc_per_node=3"], quick=False, gang=None)
    assert (plan.local_world_size, plan.world_size) == (3, 6)


def test_a_launchers_ranks_rule() -> None:
    plan = plan_check([], quick=False, gang=GANG)
    assert (plan.local_world_size, plan.world_size, plan.cluster.nnodes) == (3, 6, 2)
    assert plan.cluster.rdzv_endpoint == "node0:29500"
    with pytest.raises(ConfigError, match="torchrun started 3 processes"):
        plan_check(["cluster.nproc_per_node=2"], quick=False, gang=GANG)
    words = ["cluster=multi_node", "cluster.node_rank=0", "cluster.rdzv_endpoint=node0:29500"]
    with pytest.raises(ConfigError, match="torchrun started the run on 1"):
        plan_check(words, quick=False, gang=replace(GANG, nnodes=1))


def test_collectives_have_a_minute_unless_the_time_is_given() -> None:
    def timeout_s(*words: str) -> float:
        return plan_check(list(words), quick=False, gang=None).cluster.timeout_s

    assert timeout_s() == 60
    assert timeout_s("cluster.timeout_s=5") == 5
    assert timeout_s("cluster.timeout_s=900") == 900


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["cluster.backend=nccl", "cluster.device=cpu"], "cluster.backend=nccl needs GPUs"),
        (["cluster.nproc=2"], "there is no key cluster.nproc"),
        (["-m", "cluster.nproc_per_node=1,2"], "Give one cluster"),
        (["sweep=cube"], "Give one cluster"),
        (["--cfg", "job"], "Give one cluster"),
        (
            [*NODE_0, "cluster.nnodes=1:4"],
            "cluster.nnodes=1:4: python -m train.check measures one cluster.*cluster.nnodes=4",
        ),
    ],
)
def test_what_is_no_cluster_is_refused(words: list[str], cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        plan_check(words, quick=False, gang=None)
