"""What `deterministic=true` sets in every rank, and how it ends where it cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.faults.words import SMALL
from tests.runs import Outcome, Run, run_started, run_train
from train import failure
from train.deterministic import WORKSPACE, refusing_operation

WORDS = (*SMALL, "steps=3", "log_every=1", "eval_every=0", "checkpoint=weights")
TIMES = (
    "time",
    "samples_per_s",
    "tokens_per_s",
    "step_time_s",
    "data_wait_share",
    "model_flops_per_s",
)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Two ranks with it, then two without, from one controller."""
    cwd = tmp_path_factory.mktemp("deterministic")
    return run_train(cwd, "-m", *WORDS, "deterministic=true,false").completed()


def test_both_ranks_say_what_holds(sweep: Outcome) -> None:
    ranks = sweep.find(deterministic="True").provenance["in_force"]
    assert len(ranks) == 2
    for rank in ranks:
        assert rank == {
            "device": "cpu",
            "threads": rank["threads"],
            "matmul_precision": "highest",
            "deterministic_algorithms": True,
            "fill_uninitialized_memory": True,
            "cudnn_deterministic": True,
            "cudnn_benchmark": False,
            "cublas_workspace_config": ":4096:8",
        }


def test_nothing_of_it_stays_for_the_next_job(sweep: Outcome) -> None:
    """The jobs share a controller and a server: a variable left in either would show here."""
    for rank in sweep.find(deterministic="False").provenance["in_force"]:
        assert rank["deterministic_algorithms"] is False
        assert rank["cudnn_deterministic"] is False
        assert rank["cudnn_benchmark"] is False
        assert rank["cublas_workspace_config"] is None


def test_a_second_run_is_equal_to_the_last_bit(sweep: Outcome, tmp_path: Path) -> None:
    first = sweep.find(deterministic="True")
    again = run_started(
        tmp_path, *WORDS, "deterministic=true", env={WORKSPACE: ":16:8"}
    ).completed()
    assert results(again.run) == results(first)
    assert len(results(first)) == 4  # three steps and an evaluation
    for name, tensor in first.weights().items():
        assert torch.equal(again.run.weights()[name], tensor)
    # The other value with which cuBLAS repeats itself is the user's to choose.
    chosen = [rank["cublas_workspace_config"] for rank in again.run.provenance["in_force"]]
    assert chosen == [":16:8", ":16:8"]


def results(run: Run) -> list[dict[str, object]]:
    return [
        {key: value for key, value in record.items() if key not in TIMES and "/time" not in key}
        for record in run.metrics
    ]


def test_an_operation_without_a_deterministic_form_is_named(tmp_path: Path) -> None:
    model = ("model._target_=probe_deterministic.Puts", "~model.width", "~model.layers")
    words = (*WORDS, *model, "cluster.max_restarts=1")
    ended = run_train(tmp_path, *words, "deterministic=true")
    assert ended.code == 1
    status = ended.run.status
    assert status["status"] == "failed"
    assert status["attempts"] == 1  # it would happen again
    error = status["error"]
    assert (error["kind"], error["step"]) == ("nondeterministic", 0)
    assert "put_ has no deterministic form" in error["cause"]
    assert "deterministic=false" in error["cause"]
    assert "put_ has no deterministic form" in ended.stderr
    assert error["traceback_file"] == f"logs/rank-{error['rank']}.traceback.txt"


def test_what_torch_says_is_recognised_where_it_is_wrapped() -> None:
    refused = RuntimeError(
        "index_put_ with accumulate=False does not have a deterministic implementation, but you "
        "set 'torch.use_deterministic_algorithms(True)'."
    )
    assert refusing_operation(refused) == "index_put_ with accumulate=False"
    assert refusing_operation(RuntimeError("shape mismatch")) is None
    assert refusing_operation(ValueError(str(refused))) is None
    wrapped = ValueError("in a hook")
    wrapped.__cause__ = refused
    assert failure.kind_of(wrapped) == "nondeterministic"
