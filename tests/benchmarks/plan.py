"""Plans held against runs: `python -m tests.benchmarks.plan [FILE.jsonl] [word ...]`.

Each strategy on gloo ranks, in each precision, for three models, micro-batches of 1 and 8 samples,
with and without activation checkpointing: storages are counted one by one on each rank, and the
plan is compared with the rank that held the most. Words choose, as `fsdp zero3 bf16 gpt_30m
ranks=2 x8 full`; several of one kind are alternatives. What was measured goes into the file, and
what is there already is not measured again, so the same command goes on after an interruption.
Prints a line for each cell, then the table of docs/plan.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import torch.distributed as dist

from components.cluster.ranks import Ranks
from tests import gang
from tests.benchmarks.plan_cells import BenchmarkCell, chosen
from tests.benchmarks.plan_results import append, read
from tests.benchmarks.plan_table import beyond, errors_of, line, table
from tests.measured_memory import memory


def main(argv: list[str]) -> None:
    files = [word for word in argv if word.endswith(".jsonl")]
    cells = chosen([word for word in argv if word not in files])
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(files[0] if files else f"{temporary}/measured.jsonl").resolve()
        there = read(file)
        measured = {c: errors_of(c, there[c.words]) for c in cells if c.words in there}
        left = [cell for cell in cells if cell not in measured]
        print(f"{len(cells)} cells, of which {len(left)} are to be measured", flush=True)
        for cell, errors in _measured(left, file):
            measured[cell] = errors
            print(line(cell, errors), flush=True)
    print(f"\n{table(measured)}\n")
    off = list(beyond(measured))
    print(f"{len(measured)} of {len(cells)} cells measured; {len(off)} off by more than allowed:")
    print("\n".join(off))


def _measured(
    cells: list[BenchmarkCell], file: Path
) -> Iterator[tuple[BenchmarkCell, dict[str, float]]]:
    """One cell after another, those that failed left out and told."""
    _prepare_processes()
    for _, some in groupby(cells, _gang):
        left = list(some)
        while left:
            failure = _run(left, file)
            there = read(file)
            for cell in [cell for cell in left if cell.words in there]:
                yield cell, errors_of(cell, there[cell.words])
            left = [cell for cell in left if cell.words not in there]
            if failure is not None and left:  # the first that is not there is the one that failed
                print(f"{' '.join(left[0].words)}: failed: {failure}", flush=True)
                del left[0]


def _gang(cell: BenchmarkCell) -> tuple[Any, ...]:
    """What the cells of one gang have in common; an engine leaves traces in its process."""
    own = cell.words if cell.strategy.startswith("zero") else ()
    return cell.ranks, cell.model, cell.strategy, cell.precision, own


def _run(cells: list[BenchmarkCell], file: Path) -> Exception | None:
    """Processes for these cells. What has ended them before the last one's end, if anything."""
    try:
        gang.run(_all_of, cells[0].ranks, cells, file)
    except Exception as failure:
        return failure
    return None


def _all_of(ranks: Ranks, cells: list[BenchmarkCell], file: Path) -> None:
    for cell in cells:
        by_rank: list[Any] = [None] * ranks.world_size
        dist.all_gather_object(by_rank, memory(ranks, cell.case))
        if ranks.main:
            append(file, cell, by_rank)


def _prepare_processes() -> None:
    """Threads would only be in each other's way; DeepSpeed takes long to import, so once."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["DS_ACCELERATOR"] = "cpu"
    gang.PRELOADED.append("deepspeed")


if __name__ == "__main__":
    main(sys.argv[1:])
