"""`python -m train.runs`: which runs there are, and how they stand."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from components.errors import ConfigError
from components.logger.stream import unfailing_streams
from train import records, status
from train.compare.find import find_runs
from train.compare.numbers import loss
from train.compare.results import Result, as_record, read_run
from train.identity import OUTPUTS

LAST = 20

TAIL_BYTES = 64 * 1024
"""How much of a run's records is read: a long run has hundreds of megabytes of them."""

UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))

SWEEP = "multirun.yaml"
"""The file by which a folder is a sweep's."""

HEADINGS = ("age", "status", "steps", "cell", "loss", "folder")

EPILOG = """\
Newest last; the runs of a sweep stand together. `crashed` is a run whose status says `running` and
which no process leads any more: `python -m train resume=<folder>` goes on with it. The loss is
the last val/loss, or in brackets train/loss where nothing has been evaluated yet.

exit codes: 0 done; 2 there are none
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words = _parser().parse_args(argv)
    try:
        print("\n".join(listing(words.folder, None if words.all else words.last)))
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    return 0


def listing(folder: Path, last: int | None, now: datetime | None = None) -> list[str]:
    """The runs in `folder`, a line each below a line for the folder that holds them.

    Args:
        last: how many, of the newest; None is all.
        now: that ages are counted to; None is the present.

    Raises:
        ConfigError: when there are none.
    """
    if folder == OUTPUTS and not folder.exists():
        raise ConfigError(
            f"{folder.absolute()} does not exist: no run was started in this folder. "
            "Start one with python -m train, or give the folder that holds runs."
        )
    runs = _by_time(find_runs([folder]))
    shown = runs if last is None else runs[-last:]
    now = now or datetime.now(UTC)
    lines = [_line(read_run(run), now) for run in shown]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *lines, strict=True)]
    told = [_aligned(HEADINGS, widths)]
    for parent, some in groupby(zip(shown, lines, strict=True), lambda pair: pair[0].parent):
        told += [str(parent), *(_aligned(line, widths) for _, line in some)]
    if hidden := len(runs) - len(shown):
        told.append(f"{hidden} earlier run{'s' if hidden > 1 else ''} left out: --all shows them")
    return told


def _by_time(runs: Sequence[Path]) -> list[Path]:
    """Newest last. Those of a sweep stay together, and in order; it is as new as its newest."""
    began = {run: _began(run) for run in runs}
    sweeps: dict[Path, list[Path]] = {}
    for run in runs:
        in_sweep = (run.parent / SWEEP).exists()
        sweeps.setdefault(run.parent if in_sweep else run, []).append(run)
    ordered = sorted(sweeps.values(), key=lambda some: max(began[run] for run in some))
    return [run for some in ordered for run in some]


def _began(run: Path) -> str:
    try:
        state = status.read(run)
    except ConfigError:  # damaged, which its line tells
        return ""
    return str(state.get("attempt_started") or state.get("started") or "")


def _line(result: Result, now: datetime) -> list[str]:
    tail = _tail(result.folder / records.FILE)
    taken = max([result.steps, *(record["step"] for record in tail)])
    planned = result.config.get("steps")
    cell = [str(result.cell[key]) for key in ("parallel", "precision") if key in result.cell]
    ranks = result.cell.get("world_size")
    return [
        _age(result.started, now),
        result.status,
        f"{taken}/{planned}" if planned is not None else "",
        " ".join(cell) + (f" x{ranks}" if ranks else ""),
        _loss(result, tail),
        result.name,
    ]


def _tail(path: Path) -> list[dict[str, Any]]:
    """The last records, as many as the last bytes of the file hold whole."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    whole = lines[1:] if size > TAIL_BYTES else lines
    return [record for line in whole if (record := as_record(line)) is not None]


def _loss(result: Result, tail: Sequence[dict[str, Any]]) -> str:
    last = dict(result.summary.get("last", {}))
    for record in tail:
        last |= record
    for key, form in (("val/loss", "{}"), ("train/loss", "({})")):
        if key in last:
            value = last[key]
            return form.format("nan" if value is None else loss(value))
    return ""


def _age(started: str | None, now: datetime) -> str:
    if started is None:
        return ""
    seconds = max(0.0, (now - datetime.fromisoformat(started)).total_seconds())
    size, unit = next((unit for unit in UNITS if seconds >= unit[0]), UNITS[-1])
    return f"{seconds // size:.0f} {unit}"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    """One line; the folder's name, which may be long, is last, and never cut."""
    *cells, folder = (text.ljust(width) for text, width in zip(line, widths, strict=True))
    return "  ".join(["", *cells, folder.rstrip()])


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: one run is the least")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.runs",
        description="List runs: age, status, steps, cell, loss and folder.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=OUTPUTS,
        help="a sweep, or any folder above runs; default: outputs",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--last", type=_count, default=LAST, metavar="N", help=f"so many of the newest ({LAST})"
    )
    amount.add_argument("--all", action="store_true", help="all of them")
    return parser


if __name__ == "__main__":
    unfailing_streams()
    sys.exit(main())
