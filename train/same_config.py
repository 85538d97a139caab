"""All nodes of a run are given the same config: the ranks of each follow node 0's."""

from __future__ import annotations

import json
from typing import Any

from train.changes import changes, in_words
from train.config_hash import lasting
from train.run_plan import Plan

OWN = ("cluster", "logger")
"""Root keys that may be a node's own: its place, and logging, which node 0 does for all."""

FOLLOWS = ("parallel", "micro_batch_size", "accumulation")
"""What `parallel=auto` may find otherwise on another machine; node 0's holds."""

TOLD = 4
"""Differences that are told."""


def given(plan: Plan) -> str:
    """What a node was given, to be compared with another's."""
    left_out = {*OWN, *(FOLLOWS if plan.choice else ())}
    config = {key: value for key, value in lasting(plan.config).items() if key not in left_out}
    parallel = "auto" if plan.choice else plan.parallel
    words = {"precision": plan.precision, "parallel": parallel}
    return json.dumps({"words": words, "config": config}, default=str)


def differing(first: str, other: str) -> str | None:
    """In what another node was given something else than node 0, as `key: node 0's -> its own`.

    Args:
        first, other: what `given` made of node 0 and of the other one.
    """
    if first == other:
        return None
    own: dict[str, Any] = json.loads(first)
    its: dict[str, Any] = json.loads(other)
    found = in_words(changes(own["config"], its["config"]), own["words"], its["words"])
    if not found:
        return None
    more = f"; and {len(found) - TOLD} more" if len(found) > TOLD else ""
    return (
        f"was given other words than node 0 ({'; '.join(found[:TOLD])}{more}), which all ranks "
        "follow: type the same on each node, but for cluster.node_rank"
    )
