"""Which rank kept the others waiting, and where each was: one report for the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.cluster.cluster import Cluster
from components.cluster.place import IN_STEP
from train import failure
from train.check.failed import in_words
from train.failure import Failure
from train.health.sight import Sight
from train.health.stacks import stacks_path

EXPLAINED = ("collective", "stalled")
"""Kinds of failures of which the places of all ranks tell more than the rank that spoke first."""


def explained(first: Failure, sights: Sequence[Sight], cluster: Cluster) -> Failure:
    """A failure as all ranks' places explain it.

    The rank that raises an error waited; the one to be named is the one that did not come.

    Args:
        first: what explains the others by their own words.
        sights: of all ranks that have been seen, by rank.
    """
    if first.kind not in EXPLAINED or not sights:
        return first
    guilty = late(sights)
    if first.kind == "stalled":
        what = f"no rank has come on for cluster.stall_s={cluster.stall_s:g} s"
    elif any(sight.timed_out for sight in sights):
        what = f"a collective waited longer than cluster.timeout_s={cluster.timeout_s:g} s"
    else:
        what = f"a collective failed ({first.cause})"
    if guilty:
        verdict = f"{in_words([one.rank for one in guilty])} did not come"
    else:
        verdict = "which rank kept the others waiting cannot be told"
    cause = "\n".join([f"{what}: {verdict}", *_lines(sights, guilty)])
    if not guilty:
        return replace(first, rank=None, cause=cause)
    one = guilty[0]
    file = f"logs/{stacks_path(Path(), one.rank).name}" if one.frame else None
    return replace(first, rank=one.rank, cause=cause, step=one.step, traceback_file=file)


def explained_by_all(
    failures: list[Failure], sights: Sequence[dict[str, Any]], cluster: Cluster
) -> list[Failure]:
    """The failures of all nodes, the first of them as the places of all ranks explain it.

    Args:
        sights: of the ranks of all nodes, as plain data.
    """
    first = failure.first(failures)
    if first is None or cluster.nnodes == 1:  # the node itself has explained it
        return failures
    seen = sorted((Sight(**sight) for sight in sights), key=lambda sight: sight.rank)
    told = explained(first, seen, cluster)
    return [told, *(one for one in failures if one is not first)]


def late(sights: Sequence[Sight]) -> list[Sight]:
    """The ranks that the others waited for, as few as can be told apart; empty when none can.

    Of those that have not waited too long themselves, each test that some pass leaves those: that
    a process is stopped, that it has said nothing at all, that it lies behind in training, and
    that its stack does not end where ranks wait.
    """
    left = [sight for sight in sights if not sight.timed_out] or [*sights]
    behind = min(sight.come for sight in left)
    tests: list[Callable[[Sight], bool]] = [
        lambda sight: sight.stopped,
        lambda sight: not sight.spoke,
        lambda sight: sight.come == behind,
        lambda sight: not sight.waits,
    ]
    for test in tests:
        left = [sight for sight in left if test(sight)] or left
    return left if len(left) < len(sights) or len(sights) == 1 else []


def _lines(sights: Sequence[Sight], guilty: Sequence[Sight]) -> list[str]:
    """All ranks, those to blame first; ranks of which the same is to be said in one line."""
    groups: dict[tuple[str, str], list[Sight]] = {}
    for sight in [*guilty, *(sight for sight in sights if sight not in guilty)]:
        words = _where(sight, sight in guilty), _how(sight)
        groups.setdefault(words, []).append(sight)
    return [
        f"  {in_words([sight.rank for sight in some])}: {where} for "
        f"{max(sight.age_s for sight in some):.0f} s{how}"
        for (where, how), some in groups.items()
    ]


def _where(sight: Sight, guilty: bool) -> str:
    if sight.phase in IN_STEP:
        when = f" of step {sight.step + 1}"
    else:
        when = "" if sight.phase in ("start", "end") else f" after step {sight.step}"
    waited = "" if guilty or not (sight.waits or sight.timed_out) else "waited "
    return f"{waited}in {sight.phase}{when}"


def _how(sight: Sight) -> str:
    at = f", at {sight.frame}" if sight.frame else ""
    if sight.stopped:
        return (
            f"{at}, stopped by SIGSTOP or a debugger (process {sight.pid}), and so without stacks"
        )
    if sight.process == "gone":  # it has ended since, as it said itself
        return at
    return f"{at}, {sight.process}" if sight.process else at
