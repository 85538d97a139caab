"""How many nodes a run has: a number, or from how few to how many."""

from __future__ import annotations

import re

from components.errors import ConfigError

MOST = 1024
"""Nodes of a run that come and go."""

RANGE = re.compile(r"(\d+):(\d+)")


def node_counts(nnodes: int | str) -> tuple[int, int]:
    """The fewest and the most nodes that `cluster.nnodes` allows; equal for a number.

    Raises:
        ConfigError: when it is neither a number nor a range.
    """
    if isinstance(nnodes, int):
        return nnodes, nnodes
    match = RANGE.fullmatch(nnodes)
    least, most = (int(match[1]), int(match[2])) if match else (0, 0)
    if most > MOST:
        raise ConfigError(
            f"cluster.nnodes={nnodes}: a run goes on with up to {MOST} nodes, for each number of "
            f"which its sizes are worked out. Take cluster.nnodes={min(least, MOST)}:{MOST}."
        )
    if not 1 <= least <= most or most == 1:
        raise ConfigError(
            f"cluster.nnodes={nnodes} must be a number of nodes, or the fewest and the most of "
            "them, at least 1 and at least 2, as in cluster.nnodes=4 or cluster.nnodes=1:4."
        )
    return least, most


def elastic(nnodes: int | str) -> bool:
    """Whether nodes may come and go while the run goes on."""
    return isinstance(nnodes, str)
