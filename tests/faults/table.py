"""What each fault does to a run under each strategy, for real, as a table in Markdown.

    python -m tests.faults.table [--strategies ddp fsdp zero3 pipeline] [--faults SIGSTOP ...]

Two ranks on this machine, over gloo; as root, for hosts of network namespaces and a small disk.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.cluster.hosts import missing, network
from tests.faults.cells import Row, alone, in_a_sweep
from tests.faults.kinds import FAULTS, Fault

STRATEGIES = ("ddp", "fsdp", "zero3", "pipeline")


def in_markdown(fault: Fault, rows: dict[str, Row]) -> str:
    """A row of the table, over all strategies."""
    said = dict.fromkeys(f"`{row.said}`" if row.said else "nothing" for row in rows.values())
    cells = [
        fault.name,
        " / ".join(f"{row.over_s:.1f}" for row in rows.values()),
        "; ".join(said),
        ", ".join(dict.fromkeys(row.status for row in rows.values())),
        " / ".join(str(row.lost) for row in rows.values()),
        " / ".join(str(row.left or "none") for row in rows.values()),
        " / ".join("yes" if row.resumed else "NO" for row in rows.values()),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES, metavar="STRATEGY")
    parser.add_argument("--faults", nargs="+", default=[""], metavar="WORD", help="in their names")
    options = parser.parse_args()
    if lacks := missing():
        sys.exit(f"the table needs hosts, and none can be made {lacks}")
    print(
        f"| fault | seconds until all is over: {' / '.join(options.strategies)} | what is said "
        "| status | steps lost | processes left | resumes |\n|---|---|---|---|---|---|---|"
    )
    chosen = [fault for fault in FAULTS if any(word in fault.name for word in options.faults)]
    with tempfile.TemporaryDirectory() as place, network(Path(place)) as hosts:
        for fault in chosen:
            rows: dict[str, Row] = {}
            if fault.alone:
                for strategy in options.strategies:
                    cwd = Path(tempfile.mkdtemp(dir=place))
                    rows[strategy] = alone(fault, strategy, hosts, cwd)
                    print(f"{fault.name}, {strategy}: {rows[strategy]}", file=sys.stderr)
            else:
                rows = in_a_sweep(fault, options.strategies, Path(tempfile.mkdtemp(dir=place)))
            print(in_markdown(fault, rows), flush=True)


if __name__ == "__main__":
    main()
