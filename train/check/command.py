"""The command `python -m train.check`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.cluster.joined import Joined
from components.cluster.signals import Interrupted, raise_interrupts
from components.errors import ConfigError
from train import places

if TYPE_CHECKING:
    from train.check.plan import CheckPlan

# torch is imported by the functions that need it: --help and a mistake are told sooner.

DONE, FAILED, REFUSED = 0, 1, 2

EPILOG = """\
examples:
  python -m train.check
  python -m train.check cluster.nproc_per_node=8 --json check.json
  python -m train.check cluster=multi_node cluster.nnodes=2 cluster.node_rank=0 \\
      cluster.rdzv_endpoint=node0:29500            the same on each node, with its own node_rank
  torchrun --nproc_per_node=8 -m train.check

Starts the ranks as a run would, and makes no run. On each rank: clock, versions, free memory, rate
of matrix products and of copies; between them: all-reduce, all-gather, reduce-scatter, broadcast,
the ring of neighbours and each of its links by itself. What differs from the others is named.
A collective that waits longer than cluster.timeout_s, here 60 unless it is given, fails.

exit codes: 0 measured, whether anything is odd or not; 1 a rank failed, or the ranks could not be
brought together within cluster.start_timeout_s; 2 refused; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words, overrides = _parser().parse_known_args(argv)
    from train.check.failed import CheckFailed

    gang = None
    try:
        gang = places.gang_of(overrides)
        if gang is not None and gang.rank > 0:
            from train.check.member import follow_rank

            return _at_once(follow_rank(gang))
        if gang is None:
            raise_interrupts()
        _check(overrides, words.quick, words.json, gang)
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return _end(gang, REFUSED)
    except CheckFailed as failure:
        print(f"check failed: {failure}", file=sys.stderr)
        return _end(gang, FAILED)
    except Interrupted as stop:
        print(f"{stop}", file=sys.stderr)
        return stop.exit_code
    return DONE


def _check(overrides: list[str], quick: bool, path: Path | None, gang: Joined | None) -> None:
    from components.cluster.gang import start_server
    from train.check.plan import plan_check
    from train.files import refuse_unwritable

    started = time.monotonic()
    if path is not None:
        refuse_unwritable(f"--json {path}", path)
    if gang is None:
        start_server(("train.check.rank",))
    plan = plan_check(overrides, quick, gang)
    if gang is None and plan.cluster.node_rank > 0:
        from train.check.gang import follow

        follow(plan)
        return
    print(_heading(plan), flush=True)
    if gang is not None:
        from train.check.member import lead_gang

        results = lead_gang(plan, gang)
    else:
        from train.check.gang import lead

        results = lead(plan)
    _tell(plan, results, path, quick, time.monotonic() - started)


def _heading(plan: CheckPlan) -> str:
    ranks, nodes = plan.world_size, plan.cluster.nnodes
    return (
        f"{ranks} rank{'s' if ranks > 1 else ''} on {nodes} node{'s' if nodes > 1 else ''}, "
        f"{plan.cluster.device_type()}, {plan.cluster.backend_name()}"
    )


def _tell(
    plan: CheckPlan, results: list[dict[str, Any]], path: Path | None, quick: bool, seconds: float
) -> None:
    from train.check.failed import CheckFailed
    from train.check.report import make_report
    from train.check.table import print_report
    from train.files import write_json

    cluster = plan.cluster
    what = {
        "nnodes": cluster.nnodes,
        "nproc_per_node": plan.local_world_size,
        "world_size": plan.world_size,
        "device": cluster.device_type(),
        "backend": cluster.backend_name(),
    }
    report = {**make_report(what, results), "quick": quick, "seconds": seconds}
    print_report(report, sys.stdout)
    print(f"measured in {seconds:.0f} s", flush=True)
    if path is not None:
        try:
            write_json(path.resolve(), report)
        except OSError as error:
            raise CheckFailed(f"{path} could not be written: {error.strerror or error}") from error
        print(f"all numbers: {path}", flush=True)


def _end(gang: Joined | None, code: int) -> int:
    """The exit code; under an outside launcher the others are let know if they wait for a check."""
    if gang is None:
        return code
    if code == REFUSED:
        from train.member import dismiss

        dismiss(gang, code)
    return _at_once(code)


def _at_once(code: int) -> int:
    """The exit code, but where ranks have failed: destructors of their group may never return."""
    if code == DONE:
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.check",
        usage="%(prog)s [-h] [--quick] [--json FILE] [overrides, as python -m train takes them]",
        description="Measure what a cluster's ranks and links can do, before a run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--quick", action="store_true", help="small messages and products: whether it works at all"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    return parser
