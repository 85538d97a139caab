"""All ranks' findings together, as `--json` writes and the table shows them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from train.check.bandwidth import algorithm_bandwidth, bus_bandwidth
from train.check.verdict import odd

FINDINGS = ("collectives", "links")
"""What ranks find together."""


def make_report(cluster: dict[str, Any], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The findings of a check.

    Args:
        cluster: what was checked: `backend`, `device` and so on.
        results: of all ranks, by rank.

    Returns:
        `cluster`; `ranks`, an object each; `collectives`, one for each name and size; `links`;
        `odd`, sentences. Sizes are bytes, times seconds, rates per second.
    """
    ranks = [
        {key: value for key, value in result.items() if key not in FINDINGS} for result in results
    ]
    links = [
        {**link, "across": ranks[link["ranks"][0]]["node"] != ranks[link["ranks"][1]]["node"]}
        for result in results
        for link in result["links"]
    ]
    collectives = _collectives([result["collectives"] for result in results])
    return {
        "cluster": cluster,
        "ranks": ranks,
        "collectives": collectives,
        "links": links,
        "odd": odd(ranks, links),
    }


def _collectives(found: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A call has ended when it has on the slowest rank; of the repeats the median counts."""
    together = []
    for entries in zip(*found, strict=True):  # one collective and size, by rank
        name = entries[0]["name"]
        if "not_offered" in entries[0]:
            together.append(dict(entries[0]))
            continue
        slowest = [max(repeat) for repeat in zip(*(e["seconds"] for e in entries), strict=True)]
        seconds, size = statistics.median(slowest), entries[0]["bytes"]
        together.append(
            {
                "name": name,
                "bytes": size,
                "calls": entries[0]["calls"],
                "repeats": len(slowest),
                "seconds": seconds,
                "algorithm_bytes_per_s": algorithm_bandwidth(size, seconds),
                "bus_bytes_per_s": bus_bandwidth(name, size, seconds, len(entries)),
            }
        )
    return together
