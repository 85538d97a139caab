"""What is made of a rank's end that it has not told itself."""

from __future__ import annotations

import signal
from pathlib import Path

from components.cluster.gang import Exit
from train.failure import Failure, timed_out
from train.last_words import told

WATCHDOG = (
    "[rank1]:[E] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
)


def end_of(folder: Path, log: str, code: int) -> Failure:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "rank-1.log").write_text(log)
    (only,) = told(folder, [1], [Exit(1, code, 0.0)])
    return only


def test_a_rank_that_nccl_has_aborted_has_waited_too_long(tmp_path: Path) -> None:
    one = end_of(tmp_path, "x" * 100_000 + WATCHDOG + "frame #1\n" * 100, -signal.SIGABRT)
    assert (one.kind, one.victim, timed_out(one)) == ("collective", True, True)


def test_collectives_that_do_not_match_are_named(tmp_path: Path) -> None:
    log = "756 vs 4. Is there a distributed collective mismatch in your code?\n"
    one = end_of(tmp_path, log, -signal.SIGABRT)
    assert one.kind == "killed"
    assert "ranks have called different collectives" in one.cause


def test_a_rank_that_aborts_otherwise_is_the_cause(tmp_path: Path) -> None:
    one = end_of(tmp_path, "an assertion failed\n", -signal.SIGABRT)
    assert (one.kind, one.victim) == ("killed", False)
    one = end_of(tmp_path, WATCHDOG, -signal.SIGKILL)
    assert one.kind == "killed"


def test_a_rank_without_a_log(tmp_path: Path) -> None:
    (only,) = told(tmp_path, [3], [Exit(3, -signal.SIGABRT, 0.0)])
    assert only.kind == "killed"
