"""A user's own groups, with records that can be worked out by hand, on one rank and on two."""

from __future__ import annotations

import pytest
import torch

from tests.runs import PROBES, Outcome, run_train

EXPERIMENTS = (
    "whole_stream",
    "uneven_ranks",
    "stop_early",
    "one_infinity",
    "only_infinities",
    "unused_branch",
)
BOTH = pytest.mark.parametrize("parallel", ["single", "ddp"])


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_train(
        tmp_path_factory.mktemp("probes"),
        "-m",
        f"--config-dir={PROBES / 'conf'}",
        f"experiment={','.join(EXPERIMENTS)}",
        "parallel=single,ddp",
        "cluster.device=cpu",
        "log_every=1",
    )


def test_jobs_that_fail_or_are_refused_leave_the_others_alone(sweep: Outcome) -> None:
    states = {
        (run.overrides["experiment"], run.overrides["parallel"]): run.status["status"]
        for run in sweep.runs
    }
    expected = {(name, p): "completed" for name in EXPERIMENTS for p in ("single", "ddp")}
    expected |= {("only_infinities", p): "failed" for p in ("single", "ddp")}
    expected |= {("unused_branch", "ddp"): "refused"}
    assert states == expected
    assert sweep.code == 1
    assert "9 of 12 jobs completed" in sweep.stderr


@BOTH
def test_ranks_and_workers_share_a_stream_without_repeats(sweep: Outcome, parallel: str) -> None:
    """Sample k is 2^k: the sum of an epoch is 2^12 - 1 only if each came once."""
    losses = sweep.find(experiment="whole_stream", parallel=parallel).column("train/loss")
    sums = [2 * loss for loss in losses]
    assert sum(sums[:6]) == sum(sums[6:]) == 4095


@BOTH
def test_an_epoch_ends_for_all_when_one_rank_runs_out(sweep: Outcome, parallel: str) -> None:
    run = sweep.find(experiment="uneven_ranks", parallel=parallel)
    # The ranks have 1, 2, 3 and 4, 5; one process reads them in turn.
    epoch = [(1 + 4) / 2, (2 + 5) / 2] if parallel == "ddp" else [(1 + 2) / 2, (3 + 4) / 2]
    assert run.column("train/loss") == epoch * 2
    assert run.column("val/loss") == [4.0, 4.0]
    assert "1 samples that this rank had read are dropped" in run.log()


@BOTH
def test_all_ranks_stop_by_the_reduced_metric(sweep: Outcome, parallel: str) -> None:
    run = sweep.find(experiment="stop_early", parallel=parallel)
    assert run.column("val/loss") == [1.0, 2.0]
    assert run.summary["steps"] == run.status["steps"] == 2
    assert "val/loss has not fallen below 1 in 1 evaluation" in run.summary["stopped_early"]
    assert "stopped at step 2" in run.log()


@BOTH
def test_a_skipped_step_moves_the_scale_and_not_the_schedule(sweep: Outcome, parallel: str) -> None:
    run = sweep.find(experiment="one_infinity", parallel=parallel)
    assert run.column("loss_scale") == [32768.0] * 4
    assert run.column("lr") == [1.0, 0.5, 0.25, 0.125]
    assert run.summary["skipped_steps"] == 1
    assert run.summary["updates"] == 3
    assert run.column("train/loss")[0] is None
    assert run.weights()["blocks.0.weight"].tolist() == [-0.25 * 1.75]


@BOTH
def test_a_run_that_only_skips_ends_and_leaves_no_weights(sweep: Outcome, parallel: str) -> None:
    run = sweep.find(experiment="only_infinities", parallel=parallel)
    assert run.column("skipped_steps") == list(range(1, 11))
    assert run.column("loss_scale") == [65536.0 / 2**n for n in range(1, 11)]
    cause = run.status["error"]["cause"]
    assert "10 steps in a row overflowed in fp16" in cause
    assert "32768 -> 16384" in cause
    assert "precision=bf16" in cause
    assert not run.summary
    assert not list(run.folder.glob("*.safetensors"))


def test_ddp_names_the_parameters_that_take_no_part(sweep: Outcome) -> None:
    run = sweep.find(experiment="unused_branch", parallel="ddp")
    cause = run.status["error"]["cause"]
    assert "b.weight, b.bias" in cause
    assert "parallel.find_unused_parameters=true" in cause
    weights = sweep.find(experiment="unused_branch", parallel="single").weights()
    assert torch.isfinite(weights["b.weight"]).all()
