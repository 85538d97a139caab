"""From the words of the command to what is checked: the cluster alone matters."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf, open_dict

from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.errors import ConfigError
from train import places
from train.command_line import compose_jobs, parse
from train.kinds import build_kind
from train.merge import key_of
from train.placement import placed
from train.targets import check_targets

TIMEOUT_S = 60.0
"""Of the check's collectives, unless `cluster.timeout_s` is given: none of them takes long."""


@dataclass(frozen=True)
class CheckPlan:
    """What is checked.

    Attributes:
        config: `cluster`, with what holds filled in, and `quick`: what the ranks read.
        cluster: how ranks are started.
        local_world_size, world_size: ranks on this node, and over all nodes.
    """

    config: DictConfig
    cluster: Cluster
    local_world_size: int
    world_size: int


def plan_check(words: list[str], quick: bool, gang: Joined | None) -> CheckPlan:
    """Compose what is to be checked.

    Args:
        words: overrides, as `python -m train` takes them.
        quick: measure little.
        gang: that an outside launcher has started; None when we start it.

    Raises:
        ConfigError: for the first thing that cannot be.
    """
    line = parse(words)
    if line.passthrough or line.multirun:
        raise ConfigError(
            "python -m train.check measures one cluster: it takes overrides, --config-dir, --quick "
            "and --json, and neither -m, a sweep's values nor --cfg. Give one cluster."
        )
    places.check(line.base)
    (job,) = compose_jobs(line)
    places.check(job.composed)
    places.refuse_untyped(job.composed, gang)
    config = OmegaConf.create({"cluster": job.config.cluster, "quick": quick})
    check_targets(config)
    node = config.cluster
    if not any(key_of(text) == "cluster.timeout_s" for text in line.overrides):
        node.timeout_s = min(TIMEOUT_S, node.timeout_s)
    cluster: Cluster = build_kind(Cluster, node, "cluster")
    if cluster.elastic:
        raise ConfigError(
            f"cluster.nnodes={node.nnodes}: python -m train.check measures one cluster. Give the "
            f"number of nodes that are there, as in cluster.nnodes={cluster.nnodes}."
        )
    cluster, local_world_size, world_size = placed(cluster, node, False, gang)
    with open_dict(node):
        node.nproc_per_node, node.nnodes = local_world_size, cluster.nnodes
    return CheckPlan(config, cluster, local_world_size, world_size)
