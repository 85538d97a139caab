"""Keys in a component's node that say something of it and are no arguments of its target."""

from __future__ import annotations

from omegaconf import DictConfig, open_dict

BESIDE = {"model": ("checkpointing",)}
"""By the key of the node. Whatever its target is, they may be given without a `+`."""


def is_beside(key: str) -> bool:
    """Whether a full key, as `model.checkpointing`, is one of these."""
    node, _, name = key.rpartition(".")
    return name in BESIDE.get(node, ())


def arguments(node: DictConfig, key: str) -> DictConfig:
    """The node at a key without these; its interpolations resolve as they did."""
    beside = [name for name in BESIDE.get(key, ()) if name in node]
    if not beside:
        return node
    copy = node.copy()
    with open_dict(copy):
        for name in beside:
            del copy[name]
    return copy
