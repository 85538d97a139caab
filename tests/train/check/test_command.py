"""The command as it is typed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from components.cluster.signals import HEEDED
from tests.processes import Family, family
from tests.runs import Outcome, outcome, start_train
from train.check.collectives import COLLECTIVES
from train.check.command import main

CHECK = (sys.executable, "-m", "train.check")
ENDS_S = 60.0
"""Far more than any of these ends takes; a hang would take for ever."""


def _check(folder: Path, *words: str) -> Outcome:
    return outcome(start_train(folder, *words, launcher=CHECK), folder)


def _strict(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What a check of two ranks has shown, and written."""
    folder = tmp_path_factory.mktemp("check")
    done = _check(folder, "--quick", "--json", "all.json", "cluster.nproc_per_node=2").completed()
    assert [path.name for path in folder.iterdir()] == ["all.json"]  # no run, no folder
    text = (folder / "all.json").read_text()
    return done.stdout, json.loads(text, parse_constant=_strict)


def test_both_ranks_are_measured(checked: tuple[str, dict[str, Any]]) -> None:
    _, report = checked
    assert report["cluster"] == {
        "nnodes": 1,
        "nproc_per_node": 2,
        "world_size": 2,
        "device": "cpu",
        "backend": "gloo",
    }
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert report["ranks"][0]["clock_offset_s"] == 0
    for rank in report["ranks"]:
        assert {*rank["flops"]} == {"fp32", "bf16"}
        assert min(rank["copy_bytes_per_s"], *rank["flops"].values()) > 0
        # One machine, one clock: what is found lies within what is uncertain of it.
        assert abs(rank["clock_offset_s"]) <= rank["clock_uncertainty_s"]


def test_every_collective_is_measured_or_said_to_be_lacking(
    checked: tuple[str, dict[str, Any]],
) -> None:
    shown, report = checked
    timed = {entry["name"] for entry in report["collectives"]}
    assert timed == {*COLLECTIVES}
    assert all(name in shown for name in COLLECTIVES)
    for entry in report["collectives"]:
        if entry["name"] == "all-reduce":  # two ranks: 2 x 1/2 of the message
            assert entry["bus_bytes_per_s"] == pytest.approx(entry["algorithm_bytes_per_s"])
    (link,) = report["links"]
    assert link["ranks"] == [0, 1]
    assert link["across"] is False


def test_what_is_shown_is_plain_and_narrow(checked: tuple[str, dict[str, Any]]) -> None:
    shown, report = checked
    assert shown.startswith("2 ranks on 1 node, cpu, gloo\n")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert ("nothing odd" in shown) == (not report["odd"])


def test_a_rank_that_is_killed_is_named(tmp_path: Path) -> None:
    with family(tmp_path, "cluster.nproc_per_node=2", launcher=CHECK) as check:
        check.until(lambda: 1 in check.ranks())
        check.ranks()[1].kill()
        done = check.outcome(ENDS_S)
        check.gone_after()
    assert done.code == 1
    assert "check failed: rank 1: killed by SIGKILL" in done.stderr
    _take_logs(done)


def test_a_rank_that_hangs_ends_the_check_in_time(tmp_path: Path) -> None:
    words = ("cluster.nproc_per_node=2", "cluster.timeout_s=3")
    with family(tmp_path, *words, launcher=CHECK) as check:
        _hang(check, 1)
        done = check.outcome(ENDS_S)
        check.gone_after()
    assert done.code == 1
    assert "check failed: rank 1: said nothing and does not answer" in done.stderr
    _take_logs(done)


def test_a_hanging_rank_that_nobody_waits_for_ends_the_check_too(tmp_path: Path) -> None:
    words = ("cluster.nproc_per_node=1", "cluster.timeout_s=1")
    with family(tmp_path, *words, launcher=CHECK) as check:
        _hang(check, 0)
        done = check.outcome(ENDS_S)
        check.gone_after()
    assert done.code == 1
    assert "check failed: no rank has come on for 6 s (cluster.timeout_s)" in done.stderr
    _take_logs(done)


def _take_logs(done: Outcome) -> None:
    """The logs are where the message says; they are taken away."""
    found = re.search(r"^logs of this node's ranks: (.+)/logs$", done.stderr, re.MULTILINE)
    assert found is not None
    assert (Path(found[1]) / "logs" / "rank-0.log").exists()
    shutil.rmtree(found[1])


def _hang(check: Family, rank: int) -> None:
    check.until(lambda: rank in check.ranks())
    check.ranks()[rank].send_signal(signal.SIGSTOP)


def test_an_interrupt_ends_all_ranks(tmp_path: Path) -> None:
    with family(tmp_path, "cluster.nproc_per_node=2", launcher=CHECK) as check:
        check.until(lambda: len(check.ranks()) == 2)
        check.first.send_signal(signal.SIGTERM)
        done = check.outcome(ENDS_S)
        check.gone_after()
    assert done.code == 143
    assert done.stderr.strip() == "stopped by SIGTERM"


def test_a_node_that_does_not_come_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    done = _check(
        tmp_path,
        "cluster=multi_node",
        "cluster.nnodes=3",
        "cluster.node_rank=0",
        f"cluster.rdzv_endpoint={endpoint}",
        "cluster.start_timeout_s=0.5",
    )
    assert done.code == 1
    assert f"nodes 1-2 did not come to {endpoint} within 0.5 s" in done.stderr


@pytest.mark.parametrize("path", ["nowhere/all.json", ".", "/dev/null"])
def test_a_file_that_cannot_be_written_is_refused_at_once(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {number: signal.getsignal(number) for number in HEEDED}
    code = main(["--json", path])
    for number, handler in before.items():
        signal.signal(number, handler)
    assert code == 2
    assert capsys.readouterr().err == (
        f"refused: --json {path}: no file can be written there. Give a path in a folder of yours.\n"
    )
