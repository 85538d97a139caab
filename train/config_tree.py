"""Walking a composed config: its keys, and the leaves that have no value yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from omegaconf import Container, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

REFERENCE = re.compile(r"\$\{\s*([A-Za-z_]\w*(?:\.\w+)*)\s*\}")
"""`${data.vocab_size}`: an interpolation by full key, not by resolver nor relative."""


def join(parent: str, child: str | int) -> str:
    """The full key of a child: `model` and `width` give `model.width`."""
    return f"{parent}.{child}" if parent else str(child)


Entry = tuple[str, Any, str | int]
"""A full key, the container that has it, and its place in there."""


def entries(node: Any, key: str = "") -> Iterator[Entry]:
    """Every entry below `node`, at any depth; nothing is resolved."""
    places = list(node.keys()) if OmegaConf.is_dict(node) else range(len(node))
    for place in places:
        full = join(key, place)
        yield full, node, place
        child = None if _valueless(node, place) else node._get_node(place)
        if isinstance(child, Container) and not child._is_none():
            yield from entries(child, full)


def _valueless(node: Any, place: str | int) -> bool:
    return OmegaConf.is_missing(node, place) or OmegaConf.is_interpolation(node, place)


def full_keys(config: DictConfig) -> list[str]:
    """All full keys of a config, Hydra's own left out."""
    return [key for key, _, _ in entries(config) if key.split(".")[0] != "hydra"]


def key_exists(config: DictConfig, key: str) -> bool:
    """Whether a full key stands in the config, whatever its value."""
    head, _, place = key.rpartition(".")
    try:
        parent = OmegaConf.select(config, head, throw_on_missing=False) if head else config
    except OmegaConfBaseException:
        return False
    if OmegaConf.is_list(parent):
        return place.isdigit() and int(place) < len(parent)
    # `in` on the config itself would read the value, which may be missing.
    return OmegaConf.is_dict(parent) and place in list(parent)


def raw_text(node: Any, place: str | int) -> str:
    """An entry's own text, as in `${data.vocab_size}`."""
    return str(node._get_node(place)._value())


def references(text: str) -> list[str]:
    """The full keys that an interpolation names."""
    return REFERENCE.findall(text)


def as_written(texts: ListConfig) -> list[str]:
    """A list of overrides as they were typed, interpolations in them left alone."""
    plain: Any = OmegaConf.to_container(texts, resolve=False)
    return [str(text) for text in plain]
