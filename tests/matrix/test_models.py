"""Models beside the GPT: convolutions with batch norm, transformers' own, a user's module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import yaml

from tests.runs import Outcome, Run, run_train

STRATEGIES = ("single", "ddp", "fsdp", "zero1", "zero2", "zero3", "pipeline")
CONVNETS = [(parallel, precision) for parallel in STRATEGIES for precision in ("fp32", "bf16")]
STEPS = 30


@pytest.fixture(scope="module")
def convnets(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_train(
        tmp_path_factory.mktemp("convnet"),
        "-m",
        f"parallel={','.join(STRATEGIES)}",
        "precision=fp32,bf16",
        "cluster.device=cpu",
        "cluster.threads_per_rank=1",
        "data=digits_image",
        "model=convnet",
        "model.width=16",
        "model.layers=2",
        "global_batch_size=32",
        "micro_batch_size=16",
        f"steps={STEPS}",
        "optimizer.lr=0.02",
        "log_every=1",
    ).completed()


@pytest.mark.parametrize(("parallel", "precision"), CONVNETS)
def test_a_convnet_learns(convnets: Outcome, parallel: str, precision: str) -> None:
    run = convnets.find(parallel=parallel, precision=precision)
    losses = run.column("train/loss")
    assert len(losses) == STEPS
    assert losses[-1] < losses[0] - 0.6
    # Batch norm sees the same micro-batches of 16 wherever they are: the curve is the same, but
    # rounding may flip a ReLU that is zero to the last bit, which shows in later steps.
    single = convnets.find(parallel="single", precision=precision).column("train/loss")
    early, late = {"fp32": (1e-5, 1e-3), "bf16": (2e-2, 2e-2)}[precision]
    assert losses[:8] == pytest.approx(single[:8], rel=early)
    assert losses == pytest.approx(single, rel=late)


@pytest.mark.parametrize(("parallel", "precision"), CONVNETS)
def test_running_statistics_are_fp32_and_of_all_ranks(
    convnets: Outcome, parallel: str, precision: str
) -> None:
    weights = convnets.find(parallel=parallel, precision=precision).weights()
    single = convnets.find(parallel="single", precision=precision).weights()
    names = [name for name in weights if name.endswith(("running_mean", "running_var"))]
    assert names
    for name in names:
        assert weights[name].dtype is torch.float32
        assert torch.isfinite(weights[name]).all()
    # One process updates them twice a step, as does a stage; two ranks do it at the same time.
    in_turn = parallel in ("single", "pipeline")
    counts = {int(v) for name, v in weights.items() if name.endswith("num_batches_tracked")}
    assert counts == {STEPS * (2 if in_turn else 1)}
    if parallel == "pipeline" and precision == "fp32":
        for name in names:
            torch.testing.assert_close(weights[name], single[name], rtol=1e-2, atol=1e-3)


@pytest.fixture(scope="module")
def transformers(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_train(
        tmp_path_factory.mktemp("transformers"),
        "-m",
        "parallel=single,ddp,fsdp",
        "cluster.device=cpu",
        "cluster.threads_per_rank=1",
        "model=transformers",
        "model.config.hidden_size=16",
        "model.config.intermediate_size=32",
        "model.config.num_hidden_layers=2",
        "model.config.num_attention_heads=2",
        "model.config.num_key_value_heads=2",
        "data=synthetic",
        "data.vocab_size=32",
        "data.seq_len=16",
        "data.train_samples=256",
        "data.val_samples=16",
        "global_batch_size=16",
        "steps=10",
        "optimizer.lr=0.02",
        "log_every=1",
    ).completed()


@pytest.mark.parametrize("parallel", ["single", "ddp", "fsdp"])
def test_a_transformers_model_trains_alike(transformers: Outcome, parallel: str) -> None:
    run, single = transformers.find(parallel=parallel), transformers.find(parallel="single")
    losses = run.column("train/loss")
    assert losses[-1] < losses[0] - 0.2
    assert losses == pytest.approx(single.column("train/loss"), rel=1e-5)
    assert run.column("val/loss") == pytest.approx(single.column("val/loss"), rel=1e-5)
    assert run.weights().keys() == single.weights().keys()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A user's plain module, named on the command line; each strategy twice with the same seed."""
    return run_train(
        tmp_path_factory.mktemp("own"),
        "-m",
        "parallel=ddp,fsdp,zero3",
        "seed=1,1",
        "cluster.device=cpu",
        "model=mlp",
        "model._target_=probe_models.Plain",
        "~model.width",
        "~model.layers",
        "data=digits",
        "scheduler=constant",
        "optimizer.lr=1e-4",
        "global_batch_size=16",
        "steps=5",
        "log_every=1",
    ).completed()


def pair(own: Outcome, parallel: str) -> list[Run]:
    return [run for run in own.runs if run.overrides["parallel"] == parallel]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "zero3"])
def test_the_same_seed_gives_the_same_run_to_the_bit(own: Outcome, parallel: str) -> None:
    """Dropout included."""
    first, second = pair(own, parallel)
    assert first.folder != second.folder
    for name in ("train/loss", "train/grad_norm", "val/loss"):
        assert first.column(name) == second.column(name)
    left, right = first.weights(), second.weights()
    assert set(left) == {"up.weight", "up.bias", "down.weight", "down.bias"}
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_a_number_stays_one_for_every_reader(own: Outcome) -> None:
    for run in own.runs:
        stored: dict[str, Any] = yaml.safe_load((run.folder / "config.yaml").read_text())
        assert stored["optimizer"]["lr"] == 0.0001
        assert type(stored["optimizer"]["lr"]) is float
        assert run.column("lr") == [0.0001] * 5
