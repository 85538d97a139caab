"""What an elastic run tells its user when nodes come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from components.cluster.roll import Comer
from train.sizes import Sizes


def count(nodes: int) -> str:
    """As in `1 node` or `3 nodes`."""
    return f"{nodes} node{'s' if nodes != 1 else ''}"


def beginning(members: Sequence[Comer], attempt: int, step: int, sizes: Sizes) -> str:
    """The first gang of a command."""
    return (
        f"{count(len(members))}: {_listed(members)}; attempt {attempt} {_whence(step)} with "
        f"micro-batch {sizes.micro_batch_size} and accumulation {sizes.accumulation}"
    )


def events(gone: Mapping[Comer, str], came: Sequence[Comer]) -> str:
    """What happened to a gang.

    Args:
        gone: why.
    """
    words = [f"{comer} {why}" for comer, why in gone.items()]
    if came:
        words.append(f"{_listed(came)} came")
    return ", ".join(words)


def change(
    happened: str, nodes: tuple[int, int], attempt: int, step: int, sizes: tuple[Sizes, Sizes]
) -> str:
    """A gang that takes the place of another.

    Args:
        happened: as `events` says it; empty when the nodes are the same.
        nodes: how many before and now.
        sizes: of a step before and now.
    """
    before, now = sizes
    changed = []
    if now.micro_batch_size != before.micro_batch_size:
        changed.append(f"micro-batch {now.micro_batch_size}")
    if now.accumulation != before.accumulation:
        changed.append(f"accumulation {now.accumulation}")
    there = count(nodes[1])
    if nodes[1] < nodes[0]:
        there += " remains" if nodes[1] == 1 else " remain"
    head = f"{happened}: {there}, " if happened else f"{there}, "
    tail = f" with {' and '.join(changed)}" if changed else ""
    return f"{head}attempt {attempt} {_whence(step)}{tail}"


def too_few(asked: str, least: int, here: Sequence[Comer], waited_s: float, happened: str) -> str:
    """Why a run ends for which there are not enough nodes."""
    before = f"{happened}, and then " if happened else ""
    return (
        f"{before}cluster.nnodes={asked} needs {count(least)}, and within cluster.start_timeout_s="
        f"{waited_s:g} s there was no more than {_listed(here)}"
    )


def waiting(asked: str, least: int, here: Sequence[Comer], timeout_s: float, happened: str) -> str:
    """That a gang waits for more nodes."""
    before = f"{happened}: " if happened else ""
    verb = "are" if len(here) > 1 else "is"
    return (
        f"{before}{_listed(here)} {verb} here, and cluster.nnodes={asked} needs {count(least)}: "
        f"waiting for more, up to {timeout_s:g} s"
    )


def _listed(members: Sequence[Comer]) -> str:
    return ", ".join(str(one) for one in members)


def _whence(step: int) -> str:
    return f"resumes from step {step}" if step else "starts from step 0"
