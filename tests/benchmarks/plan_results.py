"""What ranks held, kept as JSON lines: a measurement goes on where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.benchmarks.plan_cells import BenchmarkCell


def read(file: Path) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """By the words of a cell, what each of its ranks held. A line cut short is left out."""
    found = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[tuple(entry["cell"])] = entry["ranks"]
    return found


def append(file: Path, cell: BenchmarkCell, by_rank: list[dict[str, Any]]) -> None:
    """One more line."""
    with file.open("a") as lines:
        lines.write(json.dumps({"cell": cell.words, "ranks": by_rank}) + "\n")
