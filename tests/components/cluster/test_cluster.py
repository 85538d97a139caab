"""How many processes, where, with what around them."""

from __future__ import annotations

import os

import pytest

from components.cluster.cluster import Cluster
from components.errors import ConfigError


def test_auto_on_a_cpu_is_two_ranks_and_one_for_a_strategy_of_one_process() -> None:
    cluster = Cluster(device="cpu")
    assert cluster.local_world_size(one_process=False) == 2
    assert cluster.local_world_size(one_process=True) == 1
    assert cluster.backend_name() == "gloo"


def test_cores_are_shared_out() -> None:
    cores = len(os.sched_getaffinity(0))
    assert Cluster(device="cpu").threads(1) == cores
    assert Cluster(device="cpu").threads(cores) == 1
    assert Cluster(device="cpu").threads(10 * cores) == 1
    assert Cluster(device="cpu", threads_per_rank=3).threads(10 * cores) == 3


def test_nccl_settings_and_interface_become_variables() -> None:
    cluster = Cluster(
        device="cpu", interface="lo", nccl={"debug": "INFO", "ib_disable": True, "algo": None}
    )
    assert cluster.environment("eth1") == {
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_DISABLE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }
    assert Cluster(device="cpu").environment(None) == {}
    assert Cluster(device="cpu").environment("lo")["GLOO_SOCKET_IFNAME"] == "lo"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nproc_per_node": 0}, ["cluster.nproc_per_node=0"]),
        ({"nnodes": 2, "node_rank": 2, "rdzv_endpoint": "a:1"}, ["cluster.node_rank=2", "0 to 1"]),
        ({"nnodes": 2}, ["cluster.rdzv_endpoint", "cluster.nnodes=2", "host:port"]),
        ({"nnodes": 2, "rdzv_endpoint": "node0"}, ["cluster.rdzv_endpoint=node0", "host:port"]),
        ({"backend": "nccl", "device": "cpu"}, ["cluster.backend=nccl", "cluster.backend=gloo"]),
        ({"interface": "ib7"}, ["cluster.interface=ib7", "lo"]),
        ({"peak_flops": 0.0}, ["cluster.peak_flops=0.0", "above 0", "cluster.peak_flops=null"]),
        ({"timeout_s": -1.0}, ["cluster.timeout_s=-1.0"]),
        ({"timeout_s": float("nan")}, ["cluster.timeout_s=nan", "at most 1e+08"]),
        ({"start_timeout_s": float("inf")}, ["cluster.start_timeout_s=inf"]),
        ({"stall_s": 1e-9}, ["cluster.stall_s=1e-09", "1 to 1e+08 seconds"]),
        ({"nnodes": 2, "rdzv_endpoint": "a:99999"}, ["cluster.rdzv_endpoint=a:99999"]),
        ({"nnodes": "1:100000"}, ["cluster.nnodes=1:100000", "Take cluster.nnodes=1:1024"]),
        ({"stall_s": 0.0}, ["cluster.stall_s=0.0", "null watches for no stall"]),
        ({"preempt_grace_s": 0.0}, ["cluster.preempt_grace_s=0.0", "above 0"]),
        ({"max_restarts": -1}, ["cluster.max_restarts=-1", "0 or more"]),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        Cluster(**options)  # type: ignore[arg-type]
    assert all(word in str(refusal.value) for word in words)
