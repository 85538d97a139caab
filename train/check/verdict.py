"""What is odd about a cluster: pure judgement of what its ranks have measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from components.cluster.roll_call import in_words
from train.check.spread import spread

RATE = 0.25
"""A rank whose rate is farther from the median than this share of it is odd."""

LINK = 0.5
"""A link that has less than this share of the median bandwidth is slow."""

LATENCY = 3.0
"""A link whose latency is more than so many times the median is slow."""

LATENCY_S = 50e-6
"""... and at least so much longer."""

CLOCK_S = 0.1
"""A node's clock that is farther off is odd: times in records and logs would mislead."""

FREE = 0.9
"""A GPU with less than this share of its memory free is used by somebody else."""

Entries = Sequence[Mapping[str, Any]]


def odd(ranks: Entries, links: Entries) -> list[str]:
    """What is odd, a sentence each; empty when nothing is.

    Args:
        ranks: as in a report, by rank.
        links: as in a report.
    """
    return [*_rates(ranks), *_links(links), *_clocks(ranks), *_means(ranks), *_occupied(ranks)]


def _rates(ranks: Entries) -> list[str]:
    """Ranks that compute or copy at another rate than most."""
    columns = {f"{name} products": _column(ranks, "flops", name) for name in ranks[0]["flops"]}
    columns["copies of memory"] = {rank["rank"]: rank["copy_bytes_per_s"] for rank in ranks}
    by_rank: dict[int, list[str]] = {}
    torn = []
    for what, values in columns.items():
        lie = spread(values, lambda value, median: abs(value - median) > RATE * median)
        assert lie is not None
        for rank in lie.odd:
            times = values[rank] / lie.median
            by_rank.setdefault(rank, []).append(f"{what} at {times:.2f} of the median rate")
        if lie.torn:
            torn.append(_torn_rates(what, values))
    return [f"rank {rank}: {', '.join(words)}" for rank, words in sorted(by_rank.items())] + torn


def _column(ranks: Entries, key: str, name: str) -> dict[int, float]:
    return {rank["rank"]: rank[key][name] for rank in ranks}


def _torn_rates(what: str, values: Mapping[int, float]) -> str:
    slow, fast = min(values, key=lambda r: values[r]), max(values, key=lambda r: values[r])
    times = values[slow] / values[fast]
    if len(values) == 2:
        return (
            f"ranks {min(slow, fast)} and {max(slow, fast)}: {what} on rank {slow} at {times:.2f} "
            f"of rank {fast}'s rate; of two, neither can be called the odd one"
        )
    return (
        f"ranks differ in {what} without a majority: rank {slow} has {times:.2f} of rank "
        f"{fast}'s rate"
    )


def _links(links: Entries) -> list[str]:
    told = []
    for across, where in ((False, "within a node"), (True, "between nodes")):
        some = {tuple(link["ranks"]): link for link in links if link["across"] is across}
        told += _slow(
            {pair: link["bytes_per_s"] for pair, link in some.items()},
            lambda value, median: value < LINK * median,
            f"of the median bandwidth {where}",
        )
        told += _slow(
            {pair: link["latency_s"] for pair, link in some.items()},
            lambda value, median: value > max(LATENCY * median, median + LATENCY_S),
            f"times the median latency {where}",
        )
    return told


def _slow(
    values: Mapping[tuple[int, ...], float], far: Callable[[float, float], bool], words: str
) -> list[str]:
    """Slow links; a rank all of whose links are slow, two or more, in their place."""
    lie = spread(values, far)
    if lie is None or not (lie.odd or lie.torn):
        return []
    if lie.torn:
        return [f"links differ without a majority: {_listed(values, lie.median)} {words}"]
    told, left = [], dict.fromkeys(lie.odd)
    for rank in sorted({rank for pair in lie.odd for rank in pair}):
        own = [pair for pair in values if rank in pair]
        if len(own) > 1 and all(pair in left for pair in own):
            some = _listed({pair: values[pair] for pair in own}, lie.median)
            told.append(f"rank {rank}: all its links are slow: {some} {words}")
            for pair in own:
                del left[pair]
    return told + [f"link {_listed({pair: values[pair]}, lie.median)} {words}" for pair in left]


def _listed(values: Mapping[tuple[int, ...], float], median: float) -> str:
    """Links, each with its value in medians: `1-2 0.31, 2-3 0.20`."""
    return ", ".join(
        f"{'-'.join(map(str, pair))} {value / median:.2f}" for pair, value in values.items()
    )


def _clocks(ranks: Entries) -> list[str]:
    """Nodes whose clocks are off, by the first rank of each: ranks of a node share its clock."""
    first: dict[int, Mapping[str, Any]] = {}
    for rank in ranks:
        first.setdefault(rank["node"], rank)
    values = {node: rank["clock_offset_s"] for node, rank in first.items()}

    def far(value: float, median: float) -> bool:
        return abs(value - median) > CLOCK_S

    lie = spread(values, far)
    assert lie is not None
    if lie.torn:
        low, high = min(values, key=lambda n: values[n]), max(values, key=lambda n: values[n])
        return [
            f"clocks of nodes {low} and {high} are {values[high] - values[low]:.3f} s apart "
            f"(± {first[high]['clock_uncertainty_s'] + first[low]['clock_uncertainty_s']:.6f})"
        ]
    return [
        f"node {node} ({first[node]['host']}): its clock is {values[node] - lie.median:+.3f} s off"
        f" the median (± {first[node]['clock_uncertainty_s']:.6f})"
        for node in lie.odd
    ]


def _means(ranks: Entries) -> list[str]:
    """Versions and hardware that are not the same on all ranks."""
    told = []
    for name in sorted({name for rank in ranks for name in rank["versions"]}):
        told += _unlike(name, {r["rank"]: r["versions"].get(name, "missing") for r in ranks})
    for key in ("device", "cores", "threads"):
        told += _unlike(key, {rank["rank"]: str(rank[key]) for rank in ranks})
    return told


def _unlike(what: str, values: Mapping[int, str]) -> list[str]:
    groups: dict[str, list[int]] = {}
    for rank, value in values.items():
        groups.setdefault(value, []).append(rank)
    if len(groups) == 1:
        return []
    most_first = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    some = "; ".join(f"{value} on {in_words(some)}" for value, some in most_first)
    return [f"{what} differs: {some}"]


def _occupied(ranks: Entries) -> list[str]:
    return [
        f"rank {rank['rank']}: only {rank['memory_free_bytes'] / rank['memory_total_bytes']:.0%} "
        "of its GPU's memory is free: somebody else uses it"
        for rank in ranks
        if "fp16" in rank["flops"]  # measured on GPUs alone; a machine's own memory is shared
        and rank["memory_free_bytes"] < FREE * rank["memory_total_bytes"]
    ]
