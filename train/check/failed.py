"""A check that did not come to its end, in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.cluster.roll_call import in_words
from components.errors import ConfigError
from train.failure import Failure


class CheckFailed(Exception):
    """A rank failed, or the ranks could not be brought together. The message is for the user."""


def explained(
    first: Failure, stages: Mapping[int, str], folder: Path | None = None
) -> CheckFailed | ConfigError:
    """What to raise for a failure.

    Args:
        stages: what each rank did last.
        folder: where the ranks of this node have left their logs.
    """
    if first.kind == "refused":
        return ConfigError(first.cause)
    who = "" if first.rank is None else f"rank {first.rank}: "
    lines = [f"{who}{first.cause}", *_where(stages)]
    if folder is not None:
        lines.append(f"logs of this node's ranks: {folder}/logs")
    return CheckFailed("\n".join(lines))


def _where(stages: Mapping[int, str]) -> list[str]:
    """The ranks by what they did last, each group in a line."""
    groups: dict[str, list[int]] = {}
    for rank, stage in sorted(stages.items()):
        groups.setdefault(stage, []).append(rank)
    return [f"at {stage}: {in_words(ranks)}" for stage, ranks in groups.items()]
