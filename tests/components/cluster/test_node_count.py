"""How many nodes: a number or a range."""

from __future__ import annotations

import pytest

from components.cluster.cluster import Cluster
from components.cluster.node_count import elastic, node_counts
from components.errors import ConfigError

PLACE = {"node_rank": 0, "rdzv_endpoint": "node0:29500", "device": "cpu"}


def test_a_number_and_a_range() -> None:
    assert node_counts(3) == (3, 3)
    assert node_counts("1:4") == (1, 4)
    assert node_counts("2:2") == (2, 2)  # as many, of which a lost one may come back
    assert not elastic(3)
    assert elastic("2:2")


@pytest.mark.parametrize("nnodes", ["4:1", "0:2", "1:1", "1:", "two", "4", "1:2:3", "-1:2"])
def test_no_range(nnodes: str) -> None:
    with pytest.raises(ConfigError, match=rf"cluster.nnodes={nnodes} must be"):
        node_counts(nnodes)


def test_a_cluster_of_some_of_its_nodes() -> None:
    whole = Cluster(nnodes="1:4", **PLACE)  # type: ignore[arg-type]
    assert (whole.min_nnodes, whole.nnodes, whole.elastic) == (1, 4, True)
    formed = whole.formed(3, 2)
    assert (formed.min_nnodes, formed.nnodes, formed.elastic) == (3, 3, False)
    assert formed.node_rank == 2
    assert (whole.nnodes, whole.node_rank) == (4, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nnodes": "1:2"}, ["cluster.rdzv_endpoint", "host:port"]),
        ({"nnodes": "1:2", **PLACE, "node_rank": 2}, ["cluster.node_rank=2", "0 to 1"]),
        ({"settle_s": -1.0}, ["cluster.settle_s=-1.0", "0 or more"]),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        Cluster(**options)  # type: ignore[arg-type]
    assert all(word in str(refusal.value) for word in words)
