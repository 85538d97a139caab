"""A check for the terminal: nodes, ranks, collectives, links, and what is odd."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from components.cluster.roll_call import in_words

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 80
"""Columns of a file or a pipe, and what each table fits into."""

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def print_report(report: dict[str, Any], file: TextIO) -> None:
    """Print a report, in colour where `file` is a terminal."""
    from rich.console import Console
    from rich.text import Text

    width = None if file.isatty() else WIDTH
    console = Console(file=file, width=width, highlight=False, emoji=False, markup=False)
    for line in _nodes(report["ranks"]):
        console.print(Text(line))
    console.print(_ranks(report["ranks"]))
    if all("attained" in rank for rank in report["ranks"]):  # a quick check has none
        console.print(Text(_attained(report["ranks"])))
    for heading, cell in _BLOCKS:
        if report["collectives"]:
            console.print()
            console.print(_collectives(heading, cell, report))
    for entry in report["collectives"]:
        if "not_offered" in entry:
            backend = report["cluster"]["backend"]
            console.print(Text(f"{entry['name']}: not offered by {backend}"))
    console.print()
    for line in _links(report["links"]):
        console.print(Text(line))
    for line in report["odd"]:
        console.print(Text(f"odd: {line}", style="yellow"))
    if not report["odd"]:
        console.print(Text(_nothing_odd(report["ranks"]), style="green"))


def _nothing_odd(ranks: Sequence[dict[str, Any]]) -> str:
    return "nothing odd" if len(ranks) > 1 else "nothing odd: one rank has none to differ from"


def _nodes(ranks: Sequence[dict[str, Any]]) -> list[str]:
    """Nodes with what their ranks run on, a line each kind; then the versions."""
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for rank in ranks:
        kind = (rank["node"], rank["host"], rank["device"], rank["cores"], rank["threads"])
        kinds.setdefault(kind, []).append(rank["rank"])
    lines = [
        f"node {node} ({host}), {in_words(numbers)}: {device}; {_count(cores, 'core')}, "
        f"{_count(threads, 'thread')} a rank"
        for (node, host, device, cores, threads), numbers in kinds.items()
    ]
    versions = ", ".join(f"{name} {value}" for name, value in ranks[0]["versions"].items())
    return [*lines, versions, ""]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _ranks(ranks: Sequence[dict[str, Any]]) -> Table:
    types = list(ranks[0]["flops"])
    fastest = max(rate for rank in ranks for rate in rank["flops"].values())
    size, unit = (1e12, "TFLOP/s") if fastest >= 1e12 else (1e9, "GFLOP/s")
    rates = [f"{name} {unit}" for name in types]
    table = _table("rank", "memory free GB", *rates, "copy GB/s", "clock off ms")
    for rank in ranks:
        free, total = (rank[f"memory_{which}_bytes"] / 1e9 for which in ("free", "total"))
        clock, unsure = (rank[f"clock_{what}_s"] * 1e3 for what in ("offset", "uncertainty"))
        table.add_row(
            str(rank["rank"]),
            f"{free:.1f} of {total:.1f}",
            *(number(rank["flops"][name] / size) for name in types),
            number(rank["copy_bytes_per_s"] / 1e9),
            f"{clock:+.2f} ± {unsure:.2f}",
        )
    return table


def _attained(ranks: Sequence[dict[str, Any]]) -> str:
    """What planned times rest on besides: low where a machine is busy with something else."""
    shares = []
    for name in ranks[0]["flops"]:
        found = [rank["attained"][name] for rank in ranks]
        low, high = f"{min(found):.0%}", f"{max(found):.0%}"
        shares.append(f"{name} {low}" + (f" to {high}" if high != low else ""))
    return f"a small GPT's step attains of these rates: {', '.join(shares)}"


_Cell = Callable[[dict[str, Any]], str]
_BLOCKS: tuple[tuple[str, _Cell], ...] = (
    ("time of a call", lambda entry: duration(entry["seconds"])),
    ("algorithm GB/s", lambda entry: number(entry["algorithm_bytes_per_s"] / 1e9)),
    ("bus GB/s", lambda entry: number(entry["bus_bytes_per_s"] / 1e9)),
)


def _collectives(heading: str, cell: _Cell, report: dict[str, Any]) -> Table:
    timed = [entry for entry in report["collectives"] if "bytes" in entry]
    # Sizes are cut to whole parts for each rank, so that they differ a little by collective.
    sizes = sorted({size_name(entry["bytes"]): entry["bytes"] for entry in timed}.items(), key=_by)
    table = _table(heading, *(name for name, _ in sizes))
    for name in dict.fromkeys(entry["name"] for entry in timed):
        cells = {size_name(e["bytes"]): cell(e) for e in timed if e["name"] == name}
        # Left out where it would have taken too long.
        table.add_row(name, *(cells.get(size, "-") for size, _ in sizes))
    return table


def _by(size: tuple[str, int]) -> int:
    return size[1]


def _links(links: Sequence[dict[str, Any]]) -> list[str]:
    """Links of each kind in a line: the median, and the worst where there are several."""
    lines = []
    for across, where in ((False, "within a node"), (True, "between nodes")):
        some = [link for link in links if link["across"] is across]
        if not some:
            continue
        latency = statistics.median(link["latency_s"] for link in some)
        rate = statistics.median(link["bytes_per_s"] for link in some) / 1e9
        line = f"{_count(len(some), 'link')} {where}: {duration(latency)}, {number(rate)} GB/s"
        if len(some) > 1:
            slow = min(some, key=lambda link: link["bytes_per_s"])
            pair = "-".join(map(str, slow["ranks"]))
            line += f" (median); slowest {pair}: {number(slow['bytes_per_s'] / 1e9)} GB/s"
        lines.append(line)
    return lines


def duration(seconds: float) -> str:
    """With three digits and a unit: `1.25 ms`."""
    size, unit = next((scale for scale in TIMES if seconds >= scale[0]), TIMES[-1])
    return f"{number(seconds / size)} {unit}"


def number(value: float) -> str:
    """With three digits where they count, and never as 1e-05."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 1e-3 else f"{value:.5f}"


def size_name(size: int) -> str:
    """Bytes in a unit of 1024, rounded: `4 MiB`."""
    for unit, name in ((1024**2, "MiB"), (1024, "KiB")):
        if size >= 0.75 * unit:
            return f"{size / unit:.0f} {name}"
    return f"{size} B"


def _table(first: str, *others: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="")
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table
