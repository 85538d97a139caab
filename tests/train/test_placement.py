"""Nodes and ranks that an outside launcher has started, and what the config says of them."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.errors import ConfigError
from train.placement import placed

SRUN = Joined("srun", 3, 4, 1, 2, nnodes=2, host="gpu03", port=20077, hosted=False)


def node(**values: Any) -> DictConfig:
    """The config of a cluster on one machine, with more keys."""
    target = "components.cluster.cluster.Cluster"
    return OmegaConf.create({"_target_": target, "nproc_per_node": "auto", **values})


def test_the_launcher_s_numbers_hold() -> None:
    cluster, local, world = placed(Cluster(), node(), False, SRUN)
    assert (local, world) == (2, 4)
    assert (cluster.nnodes, cluster.rdzv_endpoint) == (2, "gpu03:20077")


@pytest.mark.parametrize(
    ("values", "both"),
    [
        ({"nnodes": 1}, "cluster.nnodes=1, but srun started the run on 2"),
        ({"nnodes": 4}, "cluster.nnodes=4, but srun started the run on 2"),
        ({"nproc_per_node": 8}, "cluster.nproc_per_node=8, but srun started 2"),
    ],
)
def test_a_config_that_says_something_else(values: dict[str, Any], both: str) -> None:
    nnodes = values.get("nnodes", 1)
    cluster = Cluster(nnodes=nnodes, rdzv_endpoint="a:1" if nnodes > 1 else None)
    with pytest.raises(ConfigError, match=both):
        placed(cluster, node(**values), False, SRUN)
