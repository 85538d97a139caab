"""Cores and GPUs of a machine, shared out among jobs."""

from __future__ import annotations

import os
from typing import Any

import pytest

from components.errors import ConfigError
from tests.train.sweep.jobs import job
from train.sweep import share
from train.sweep.share import Share, shares

CLUSTER = {"_target_": "components.cluster.cluster.Cluster", "nproc_per_node": 1, "device": "cpu"}
DDP = {"_target_": "components.parallel.ddp.DDP"}
SINGLE = {"_target_": "components.parallel.single.Single"}


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {*range(8)})


def _job(nproc: Any, parallel: dict[str, str] = DDP) -> Any:
    return job(0, cluster={**CLUSTER, "nproc_per_node": nproc}, parallel=parallel)


def test_shares_are_alike_and_do_not_overlap() -> None:
    assert shares(3, [_job(2)]) == [Share((0, 1), None), Share((2, 3), None), Share((4, 5), None)]


def test_more_ranks_than_cores_are_refused() -> None:
    with pytest.raises(ConfigError) as refusal:
        shares(3, [_job(1), _job(4)])
    told = str(refusal.value)
    assert "sweep.slots=3 leaves each job 2 of 8 cores" in told
    assert "starts 4 ranks (cluster.nproc_per_node=4)" in told
    assert "Nearest: sweep.slots=2, or cluster.nproc_per_node=2." in told


def test_a_strategy_of_one_process_needs_one_core() -> None:
    assert len(shares(8, [_job("auto", SINGLE)])) == 8


def test_more_slots_than_cores_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"slots=9: this machine has 8 cores. .*slots=8"):
        shares(9, [_job(1)])


def test_gpus_are_shared_out_as_they_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv(share.VISIBLE, "4,5,6,7")
    gpu = job(0, cluster={**CLUSTER, "device": "cuda", "nproc_per_node": "auto"}, parallel=DDP)
    assert [part.gpus for part in shares(2, [gpu])] == [("4", "5"), ("6", "7")]
    monkeypatch.delenv(share.VISIBLE)
    assert [part.gpus for part in shares(2, [gpu])] == [("0", "1"), ("2", "3")]
    with pytest.raises(ConfigError, match=r"slots=5: this machine has 4 GPUs"):
        shares(5, [gpu])
    three = job(0, cluster={**CLUSTER, "device": "cuda", "nproc_per_node": 3}, parallel=DDP)
    with pytest.raises(ConfigError, match=r"leaves each job 2 of 4 GPUs"):
        shares(2, [three])
