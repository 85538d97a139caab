"""In which keys of their configs runs differ, and what follows from those."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from train.compare.results import Result
from train.config_hash import lasting
from train.merge import key_of

CELL = ("parallel", "precision")
"""Groups whose word the run itself knows, whatever options it was set by."""

MANNER = ("experiment", "debug", "sweep", "hydra")
"""Groups that only set other keys, in which the difference shows."""

PLACES = ("data.cache_dir", "cluster.node_rank", "cluster.rdzv_endpoint")
"""Keys that say where a run found things, not what it is."""

LEFT_OPEN = (None, "auto")

UNKNOWN = "?"
"""A value that a run which was refused never got to."""


class Facts:
    """A run's config as leaves by dotted key, and its groups' words."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.words = {
            group: word
            for group, word in result.choices.items()
            if "/" not in group and group not in MANNER
        } | {group: result.cell[group] for group in CELL if group in result.cell}
        self.resolved = leaves(lasting(result.config))
        self.chosen = leaves(lasting(result.chosen))
        self.typed = {key_of(override) for override in result.overrides}

    @property
    def seed(self) -> str:
        """As text."""
        return text(self.value("seed"))

    @cached_property
    def keys(self) -> list[str]:
        """All dotted keys."""
        return list(dict.fromkeys([*self.resolved, *self.chosen]))

    def derived(self, key: str) -> bool:
        """Whether the value follows from others.

        An interpolation, or a number left open (`null`, `auto`) that has been worked out. In a
        run that was refused it may never have been.
        """
        written = self.chosen.get(key)
        if not self.chosen or not (written in LEFT_OPEN or _open(written)):
            return False
        return not self.resolved or text(written) != text(self.resolved.get(key))

    def value(self, key: str) -> Any:
        """The word of a group, or the value of a key; None where the config has no such key."""
        if key in self.words:
            return self.words[key]
        if self.result.config:
            return self.resolved.get(key)
        written = self.chosen.get(key)
        return UNKNOWN if _open(written) or not self.chosen else written

    def known(self, key: str) -> Any:
        """As `value`; None where it is not known."""
        value = self.value(key)
        return None if value is UNKNOWN else value


def varied(facts: Sequence[Facts]) -> list[str]:
    """Groups and keys in which runs differ: groups first, then keys in the order of the config.

    Left out is what only follows: values that were derived in every run, and options of a group
    that go with the word that was chosen for it.
    """
    groups = [
        group
        for group in dict.fromkeys([*CELL, *(g for one in facts for g in one.words)])
        if _differs(facts, group) and all(group in one.words for one in facts)
    ]
    keys = list(dict.fromkeys(key for one in facts for key in one.keys))
    own = [
        key
        for key in keys
        if key not in PLACES
        and key not in groups
        and _differs(facts, key)
        and not all(one.derived(key) for one in facts)
        and not _goes_with(facts, key, groups)
    ]
    return [*groups, *own]


def _goes_with(facts: Sequence[Facts], key: str, groups: Sequence[str]) -> bool:
    """Whether a key is an option of a group in `groups` that nobody has set by itself."""
    group = key.partition(".")[0]
    if group not in groups or any(key in one.typed for one in facts):
        return False
    words = dict.fromkeys(text(one.words[group]) for one in facts)
    alike = ([one for one in facts if text(one.words[group]) == word] for word in words)
    return not any(_differs(some, key) for some in alike)


def _differs(facts: Sequence[Facts], key: str) -> bool:
    values = [one.value(key) for one in facts]
    return len({text(value) for value in values if value is not UNKNOWN}) > 1


def _open(written: Any) -> bool:
    return isinstance(written, str) and ("${" in written or written == "???")


def leaves(node: Any, key: str = "") -> dict[str, Any]:
    """What stands at the ends of a config, by dotted key. Lists are ends."""
    if not isinstance(node, dict):
        return {key: node}
    found: dict[str, Any] = {}
    for name, child in node.items():
        found |= leaves(child, f"{key}.{name}" if key else str(name))
    return found


def text(value: Any) -> str:
    """A value as an override would have it: `0.01`, `true`, `null`, `[1,2]`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        short = f"{value:.6g}"
        return short if float(short) == value else repr(value)
    return json.dumps(value, separators=(",", ":"), default=str)
