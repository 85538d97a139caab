"""Cells of the table of faults that no other test has: how they end, and that the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cells import Row, alone, in_a_sweep
from tests.faults.kinds import FAULTS, Fault


def named(words: str) -> Fault:
    (fault,) = [fault for fault in FAULTS if words in fault.name]
    return fault


def ended_well(row: Row) -> None:
    assert row.status == "failed"
    assert row.left == 0
    assert 0 <= row.lost <= 6
    assert row.resumed


@pytest.mark.parametrize("where", ["in a save", "in an evaluation"])
def test_a_rank_is_killed(tmp_path: Path, where: str) -> None:
    row = in_a_sweep(named(where), ["ddp"], tmp_path)["ddp"]
    ended_well(row)
    assert row.said.startswith("killed by SIGKILL")


def test_the_fork_server_is_killed(tmp_path: Path) -> None:
    row = alone(named("fork server"), "ddp", [], tmp_path)
    ended_well(row)
    assert "as ranks do when the process that forks them is killed" in row.said


def test_a_rank_is_stopped(tmp_path: Path) -> None:
    """The other's collective waits for it no longer than `cluster.timeout_s`."""
    row = in_a_sweep(named("SIGSTOP"), ["ddp"], tmp_path)["ddp"]
    ended_well(row)
