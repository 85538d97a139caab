"""The command `python -m train.plan`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from components.errors import ConfigError

# torch is imported by the functions that need it: --help and a mistake are told sooner.

HELP = """\
usage: python -m train.plan [-h] [overrides, as python -m train takes them] [words of its own]

Memory, traffic and time of a run on each rank, worked out without a process, a GPU or the data.

examples:
  python -m train.plan model=llama_7b parallel=zero3 precision=bf16 data.seq_len=2048 \\
      cluster.nnodes=4 cluster.nproc_per_node=8 cluster.device=a100_80gb
  python -m train.plan -m parallel=ddp,fsdp,zero2 precision=fp32,bf16 cluster.device=h100_80gb
  python -m train.plan plan.all=true cluster.device=a100_80gb plan.json=plan.json
  python -m train.plan -m model=llama_7b parallel=ddp,fsdp,zero3 precision=bf16 \\
      cluster.device=a100_80gb cluster.nnodes=1,2,4,8,16,32,64,128 micro_batch_size=1 \\
      plan.page=plan.html
  python -m train.plan model=parameters model.count=7.5e9 parallel=zero2 precision=bf16

words of its own:
  cluster.device=NAME   a device of conf/device, for a machine that need not be here; the ranks
                        of a node are nproc_per_node, or as many as a usual node has;
                        several with -m
  plan.all=true         every strategy in every precision
  plan.json=FILE        write all numbers there
  plan.page=FILE        draw them: memory by part, time, scaling; one page that needs no network

exit codes: 0 planned, whether it fits or not; 2 refused, as a run would be
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "-h" in words or "--help" in words:
        print(HELP)
        return 0
    try:
        _plan(words)
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _plan(argv: list[str]) -> None:
    from train.plan.words import read

    words = read(argv)
    from train.files import refuse_unwritable, write_json

    files = {"plan.json": words.json, "plan.page": words.page}
    for key, path in files.items():
        if path is not None:
            refuse_unwritable(f"{key}={path}", path)
    if words.json and words.page and words.json.resolve() == words.page.resolve():
        raise ConfigError(f"plan.json={words.json} plan.page={words.page}: one file for both.")
    from train.plan.cells import plan_cells
    from train.plan.table import print_cells, print_plan

    cells = plan_cells(words)
    if words.several:
        print_cells(cells, sys.stdout)
        numbers = {"cells": [cell.as_json() for cell in cells]}
    else:
        (cell,) = cells
        if cell.plan is None:
            raise ConfigError(cell.refused)
        print_plan(cell.plan, sys.stdout)
        numbers = cell.plan.as_json()
    if words.json is not None:
        with _told("plan.json", words.json):
            write_json(words.json.resolve(), numbers)
        print(f"all numbers: {words.json}")
    if words.page is not None:
        from train.plan.page import write_page

        with _told("plan.page", words.page):
            write_page(cells, f"python -m train.plan {shlex.join(argv)}", words.page.resolve())
        print(f"page: {words.page}")


@contextmanager
def _told(key: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"{key}={path} could not be written: {why}.") from error
