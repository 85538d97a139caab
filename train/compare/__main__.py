"""`python -m train.compare`: runs beside each other, from their folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from components.errors import ConfigError
from components.logger.stream import unfailing_streams
from train.compare import write_files
from train.compare.comparison import compare
from train.compare.find import find_runs
from train.compare.results import read_run
from train.compare.table import print_table
from train.identity import OUTPUTS

EPILOG = """\
Prints a table with a row for each cell, runs that differ in their seed alone taken together, and
writes results.csv (a line for each run) and report.html (curves, parity, memory, speed, failures;
one file that needs no network). Nothing is trained and no GPU is needed. Runs that failed or still
go on are there too.

examples:
  python -m train.compare outputs/<date>/<sweep>
  python -m train.compare outputs/<date>/<run> outputs/<date>/<other run> --out comparison
  python -m train.compare outputs --reference "ddp fp32"

exit codes: 0 done; 1 could not be written; 2 refused
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words = _parser().parse_args(argv)
    try:
        runs = find_runs(words.folders)
        title = ", ".join(str(folder) for folder in words.folders)
        comparison = compare([read_run(run) for run in runs], words.reference, title)
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    print_table(comparison, sys.stdout)
    out = words.out or _place(words.folders, runs)
    try:
        print("\n".join(["", *write_files(comparison, out)]))
    except OSError as error:
        print(f"{out} cannot be written: {error}. Give another place by --out.", file=sys.stderr)
        return 1
    return 0


def _place(folders: Sequence[Path], runs: Sequence[Path]) -> Path:
    """The folder of the sweep, if the runs are those of one; else a new folder in outputs/."""
    if len(folders) == 1 and all(run.parent == folders[0] for run in runs):
        return folders[0]
    return OUTPUTS / f"compare-{datetime.now():%Y-%m-%d_%H-%M-%S}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.compare",
        description="Compare runs: losses, speed and memory, beside a reference.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="a run, a sweep, or any folder above them",
    )
    parser.add_argument(
        "--reference",
        metavar="LABEL",
        help="the row that others are compared with, by its label or a run's folder name; default: "
        "the first that completed of single fp32, single, fp32, any",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where results.csv and report.html go; default: the sweep's folder, if one is given, "
        "else outputs/compare-<time>",
    )
    return parser


if __name__ == "__main__":
    unfailing_streams()
    sys.exit(main())
