"""Runs beside each other, read offline from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from train.compare.comparison import Comparison

# A training job imports nothing of this: libraries are loaded by the functions that need them.


def write(folder: Path, runs: Sequence[Path]) -> None:
    """Compare the runs of a sweep: print the table, write results.csv and report.html there.

    Args:
        folder: the sweep's.
        runs: the folders of its jobs; those without a run are left out.

    A disk that is full or cannot be written is told of and no more: the runs are done.

    """
    import sys

    from train import status
    from train.compare.comparison import compare
    from train.compare.results import read_run
    from train.compare.table import print_table

    here = Path.cwd()
    title = folder.relative_to(here) if folder.is_relative_to(here) else folder
    comparison = compare(
        [read_run(run) for run in runs if (run / status.FILE).exists()], title=str(title)
    )
    print_table(comparison, sys.stdout)
    try:
        print("\n".join(["", *write_files(comparison, folder)]))
    except OSError as error:
        print(f"the comparison could not be written into {folder}: {error}", file=sys.stderr)


def write_files(comparison: Comparison, folder: Path) -> list[str]:
    """Write results.csv and report.html into `folder`; what was written, a line each.

    Raises:
        OSError: when it cannot be.
    """
    from train.compare.csv_file import FILE, write_csv
    from train.compare.report import write_report

    folder.mkdir(parents=True, exist_ok=True)
    table, page = folder / FILE, folder / "report.html"
    write_csv(comparison, table)
    write_report(comparison, page)
    return [f"numbers of each run: {table}", f"the page:            {page}"]
