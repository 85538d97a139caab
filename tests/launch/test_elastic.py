"""Nodes that come and go while a run goes on: commands on one machine, each a node."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.words import ENDLESS, FAULTY
from tests.launch.test_one_folder import free_port
from tests.processes import Family, family
from tests.runs import run_started


@contextmanager
def node(cwd: Path, rank: int, port: int, *words: str) -> Iterator[Family]:
    """One node's command."""
    own = (f"cluster.node_rank={rank}", f"cluster.rdzv_endpoint=127.0.0.1:{port}")
    common = ("cluster=multi_node", "cluster.nproc_per_node=1", "checkpoint=default")
    with family(cwd, *common, *words, *own) as command:
        yield command


def took(command: Family, attempt: int, steps: int) -> bool:
    """Whether this attempt is the present one, and has recorded so many steps of its own."""
    run = command.run()
    if run is None or run.status.get("attempts") != attempt:
        return False
    history = run.status.get("history", [])
    before = history[-1]["steps"] if history else 0
    return len(run.metrics) > 0 and run.metrics[-1]["step"] >= before + steps


def test_nodes_come_and_go_and_the_curve_is_one(tmp_path: Path) -> None:
    """One dies, comes back, is warned and leaves: as if there had been one rank all along."""
    hurry, port = tmp_path / "hurry", free_port()
    curve = (*FAULTY, "steps=60", "checkpoint.every_steps=4")
    pace = ("+model.pace_s=0.7", f"+model.hurry={hurry}")
    words = (*curve, *pace, "cluster.nnodes=1:2")
    with ExitStack() as stack:
        zero = stack.enter_context(node(tmp_path, 0, port, *words))
        one = stack.enter_context(node(tmp_path, 1, port, *words))
        zero.until(lambda: took(zero, 1, steps=5))
        one.first.kill()
        zero.until(lambda: took(zero, 2, steps=1))
        again = stack.enter_context(node(tmp_path, 1, port, *words))
        zero.until(lambda: took(zero, 3, steps=1))
        again.first.send_signal(signal.SIGTERM)
        left = again.outcome(60)
        zero.until(lambda: took(zero, 4, steps=1))
        hurry.touch()
        outcome = zero.outcome(120).completed()
        for command in (zero, one, again):
            command.gone_after()

    assert left.code == 75, left.stderr
    assert "stopped by SIGTERM at step" in left.stderr
    run = outcome.run
    history = run.status["history"]
    assert [past["status"] for past in history] == ["failed", "preempted", "preempted"]
    assert [[*past["nodes"]] for past in history] == [["0", "1"], ["0"], ["0", "1"]]
    worlds = [past["world_size"] for past in history]
    assert [*worlds, run.status["world_size"]] == [2, 1, 2, 1]

    host = run.status["nodes"]["0"]
    one_left, one_came, one_warned = [
        line for line in outcome.stderr.splitlines() if "resumes from" in line
    ]
    died, joined, warned = (past["steps"] for past in history)
    assert one_left == (
        f"node 1 ({host}) is gone without a word: 1 node remains, attempt 2 resumes from step "
        f"{died // 4 * 4} with accumulation 2"  # the last checkpoint
    )
    assert one_came == (
        f"node 1 ({host}) came: 2 nodes, attempt 3 resumes from step {joined} with accumulation 1"
    )
    assert one_warned == (
        f"node 1 ({host}) was warned and left: 1 node remains, attempt 4 resumes from step "
        f"{warned} with accumulation 2"
    )

    alone = tmp_path / "single"
    alone.mkdir()
    single = run_started(alone, *curve, "parallel=single").completed().run
    assert run.column("step") == single.column("step")
    assert run.column("train/loss") == pytest.approx(single.column("train/loss"), rel=1e-5)
    norms = single.column("train/grad_norm")
    assert run.column("train/grad_norm") == pytest.approx(norms, rel=1e-5)


def test_node_0_dies_and_takes_the_run_with_it(tmp_path: Path) -> None:
    """The others end as those that may go on later."""
    port = free_port()
    words = (*ENDLESS, "cluster.nnodes=1:2")
    with node(tmp_path, 0, port, *words) as zero, node(tmp_path, 1, port, *words) as one:
        zero.until(lambda: zero.training(2))
        zero.first.kill()
        zero.gone_after()
        outcome = one.outcome(60)
        one.gone_after()
    assert outcome.code == 75
    assert outcome.stderr.endswith(
        "node 1: node 0 is gone, and the run with it\n"
        f"go on with: python -m train resume={outcome.run.folder} cluster.node_rank=1\n"
    )


def test_too_few_nodes(tmp_path: Path) -> None:
    words = (*FAULTY, "cluster.nnodes=2:3", "cluster.start_timeout_s=2", "global_batch_size=12")
    with node(tmp_path, 0, free_port(), *words) as zero:
        outcome = zero.outcome(120)
        zero.gone_after()
    assert outcome.code == 75
    status = outcome.run.status
    assert status["status"] == "preempted"
    assert re.fullmatch(
        r"cluster\.nnodes=2:3 needs 2 nodes, and within cluster\.start_timeout_s=2 s there was no "
        r"more than node 0 \(.+\)",
        status["error"]["cause"],
    )
    assert f"go on with: python -m train resume={outcome.run.folder}" in outcome.stderr


def test_a_fault_of_the_program_s_own_ends_the_run(tmp_path: Path) -> None:
    """Twice at the same step, whatever is allowed; and no node is taken for lost."""
    port = free_port()
    words = (*FAULTY, "+model.fault=raise", "cluster.nnodes=1:2", "cluster.max_restarts=5")
    with node(tmp_path, 0, port, *words) as zero, node(tmp_path, 1, port, *words) as one:
        outcomes = [command.outcome(120) for command in (zero, one)]
        for command in (zero, one):
            command.gone_after()
    assert [outcome.code for outcome in outcomes] == [1, 1]
    run = outcomes[0].run
    assert run.status["attempts"] == 2
    cause = (
        "ValueError: the widget is upside down (not tried again: an earlier attempt failed after "
        "step 2 too)"
    )
    assert run.status["error"]["cause"] == cause
    assert run.status["error"]["rank"] == 1
    assert [past["world_size"] for past in run.status["history"]] == [2]
    assert cause in outcomes[1].stderr
