"""A run that stalls, waits in vain or drifts ends soon, and names the rank that explains it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.faults.words import FAULTY, TORCHRUN
from tests.launch.test_one_folder import free_port, node
from tests.processes import family
from tests.runs import run_train

STOPPED = (*FAULTY, "+model.fault=stop")
"""In the third step rank 1 is stopped, as by a debugger: no signal reaches it, no stack is had."""

ENDS_S = 90.0
"""Far more than any of these ends takes on a busy machine; a hang would take for ever."""


def test_a_stopped_rank_is_named_by_the_watchdog(tmp_path: Path) -> None:
    with family(tmp_path, *STOPPED, "cluster.stall_s=4") as command:
        outcome = command.outcome(ENDS_S)
        command.gone_after(ENDS_S)
    assert outcome.code == 1
    run = outcome.run
    error = run.status["error"]
    assert (error["kind"], error["rank"], error["step"]) == ("stalled", 1, 2)
    first, guilty, waiting = error["cause"].splitlines()
    assert first == "no rank has come on for cluster.stall_s=4 s: rank 1 did not come"
    assert guilty.startswith("  rank 1: in forward-backward of step 3 for ")
    assert "stopped by SIGSTOP or a debugger" in guilty
    assert waiting.startswith("  rank 0: waited in forward-backward of step 3 for ")
    assert "rank 1 failed after 2 steps: no rank has come on for" in outcome.stderr
    assert "_engine_run_backward" in (run.folder / "logs" / "rank-0.stacks.txt").read_text()
    logs = {path.name for path in (run.folder / "logs").iterdir()}
    assert logs == {"rank-0.log", "rank-1.log", "rank-0.stacks.txt"}


def test_one_process_that_stalls_shows_where(tmp_path: Path) -> None:
    words = (*FAULTY, "parallel=single", "+model.on_rank=0", "+model.fault=stall")
    with family(tmp_path, *words, "cluster.stall_s=4") as command:
        outcome = command.outcome(ENDS_S)
        command.gone_after(ENDS_S)
    error = outcome.run.status["error"]
    assert (error["kind"], error["rank"]) == ("stalled", 0)
    assert "at commit (probes/probe_faults.py:" in error["cause"]
    assert error["traceback_file"] == "logs/rank-0.stacks.txt"


def test_over_two_nodes_the_rank_on_the_other_one_is_named(tmp_path: Path) -> None:
    words = (*STOPPED, "cluster.nproc_per_node=1", "cluster.timeout_s=4")
    endpoint = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        nodes = [stack.enter_context(node(tmp_path, rank, endpoint, *words)) for rank in (1, 0)]
        second, first = [command.outcome(ENDS_S) for command in nodes]
        for command in nodes:
            command.gone_after(ENDS_S)
    assert (first.code, second.code) == (1, 1)
    error = first.run.status["error"]
    assert (error["kind"], error["rank"]) == ("collective", 1)
    assert error["cause"].startswith(
        "a collective waited longer than cluster.timeout_s=4 s: rank 1 did not come"
    )
    assert "stopped by SIGSTOP" in error["cause"]
    assert "rank 0: waited in forward-backward of step 3" in error["cause"]


def test_under_torchrun_the_ranks_watch_each_other(tmp_path: Path) -> None:
    # The rank that tells of a run's end is the one that stands still.
    words = (*STOPPED, "+model.on_rank=0", "cluster.stall_s=4")
    with family(tmp_path, *words, launcher=TORCHRUN) as command:
        command.until(lambda: command.run() and command.run().status.get("status") == "failed")
        command.ranks()[0].kill()  # torchrun itself would wait 30 s for it
        outcome = command.outcome(ENDS_S)
        command.gone_after(ENDS_S)
    error = outcome.run.status["error"]
    assert (error["kind"], error["rank"]) == ("stalled", 0)
    assert "rank 0: in forward-backward of step 3" in error["cause"]
    assert "rank 1: waited in forward-backward of step 3" in error["cause"]


def test_a_swallowed_error_cannot_hang_a_run(tmp_path: Path) -> None:
    words = (*FAULTY, "model._target_=probe_faults.Swallowing", "+model.fault=raise")
    with family(tmp_path, *words, "cluster.timeout_s=10") as command:
        outcome = command.outcome(ENDS_S)
        command.gone_after(ENDS_S)
    assert outcome.code == 1
    assert "ranks have called different collectives" in outcome.run.status["error"]["cause"]
    assert outcome.run.column("step") == [1, 2]


def test_a_weight_that_changes_on_one_rank_ends_the_run(tmp_path: Path) -> None:
    words = (*FAULTY, "model._target_=probe_faults.Drifting", "drift_every=2", "steps=8")
    outcome = run_train(tmp_path, *words, "cluster.nproc_per_node=3", "global_batch_size=12")
    assert outcome.code == 1
    error = outcome.run.status["error"]
    assert (error["kind"], error["rank"], error["step"]) == ("drifted", 1, 4)
    assert "rank 1 has drifted from ranks 0, 2 by step 4: head.weight differs" in error["cause"]
    assert "in 1 of 80 elements" in error["cause"]
    assert "drift_every=2: ranks compare 8 tensors" in outcome.run.log()
