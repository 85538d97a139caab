"""What a resumed run does otherwise than the run so far, and what it must not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from components.errors import ConfigError

FIXED = {
    "global_batch_size": "a step would see another number of samples",
    "seed": "the samples would come in another order",
    "data": "the samples would be others",
    "optimizer._target_": "its state belongs to another kind of optimizer",
}
"""Keys that the curve depends on, and what would become of it."""

FREE = ("data.num_workers", "data.path", "data.cache_dir")
"""Keys below those that may change: where the same data lie is shown by their fingerprint."""

NEVER = ("optimizer._target_",)
"""Those of `FIXED` that no permission makes possible."""

PLACES = ("cluster.node_rank", "cluster.rdzv_endpoint")
"""Keys that say where a run's nodes are at the moment: no change of the run."""

Change = tuple[str, Any, Any]
"""(key, before, now)."""


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[Change]:
    """The leaves in which two configs differ, places aside; one that is absent is None."""
    old, new = _leaves(before), _leaves(now)
    keys = [*new, *(key for key in old if key not in new)]
    return [
        (key, old.get(key), new.get(key))
        for key in keys
        if old.get(key) != new.get(key) and key not in PLACES
    ]


def _leaves(node: Any, key: str = "") -> dict[str, Any]:
    if not isinstance(node, dict):
        return {key: node}
    return {
        full: leaf
        for name, child in node.items()
        for full, leaf in _leaves(child, f"{key}.{name}" if key else str(name)).items()
    }


def check_allowed(allowed: Collection[str]) -> None:
    """Refuse a name in `resume_allow` that allows nothing.

    Raises:
        ConfigError: with those that there are.
    """
    unknown = [key for key in allowed if key not in FIXED or key in NEVER]
    if unknown:
        names = ", ".join(key for key in FIXED if key not in NEVER)
        raise ConfigError(f"resume_allow=[{unknown[0]}]: {unknown[0]} is not one of {names}.")


def refuse_changes(found: Collection[Change], allowed: Collection[str], where: str) -> None:
    """Refuse a change that would make another curve of a run, unless it is allowed by name.

    Args:
        allowed: keys of `FIXED`, from `resume_allow`.
        where: what is resumed, for messages.

    Raises:
        ConfigError: listing every such change, and the cure.
    """
    bad = []
    for key, before, now in _of_components(found):
        fixed = next((f for f in FIXED if key == f or key.startswith(f"{f}.")), None)
        if fixed is None or fixed in allowed or key in FREE:
            continue
        cure = "" if fixed in NEVER else f", or allow it: resume_allow=[{fixed}]"
        bad.append(
            f"{key}={now}, and the run so far had {before}: {FIXED[fixed]}. "
            f"Leave it at {key}={before}{cure}."
        )
    if bad:
        raise ConfigError(
            f"{where} cannot go on with\n  "
            + "\n  ".join(bad)
            + "\nWith run_id or resume=auto a command holds as it is typed, with resume=<folder> "
            f"the run's own words do. A new run with its weights: init_from={where}"
        )


def in_words(found: Collection[Change], before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Changes for the console, one a line.

    A group that goes by another word now is told of by its words alone; of another component that
    was swapped the options are left out.

    Args:
        before, now: the words of some groups, as in `parallel: ddp`.
    """
    words = {key: (before[key], now[key]) for key in before if before[key] != now[key]}
    rest = [change for change in _of_components(found) if change[0].partition(".")[0] not in words]
    first = [(key, old, new) for key, (old, new) in words.items()]
    return [f"{key}: {old} -> {new}" for key, old, new in [*first, *rest]]


def _of_components(found: Collection[Change]) -> list[Change]:
    """Changes without the options of a component that was swapped: they are another's."""
    swapped = {key.removesuffix("._target_") for key, _, _ in found if key.endswith("._target_")}
    return [
        change
        for change in found
        if change[0].endswith("._target_") or change[0].rpartition(".")[0] not in swapped
    ]
