"""A pipeline's training equals one process's: losses, norms, weights, scale, evaluation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.parallel.activation_checkpointing import checkpoint_blocks
from components.parallel.pipeline import Pipeline
from components.parallel.single import Single
from tests.components.parallel.pipeline_cases import Tiny, batches
from tests.gang import BF16, FP16, adamw, alone, prepared, run

STEPS = 10
RUNS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adamw": {"make_optimizer": adamw},
    "tied": {"tied": True},
    "tied adamw": {"tied": True, "make_optimizer": adamw},
    "frozen": {"frozen": True},
    "recomputed": {"recompute": "full"},
    "reentrant": {"recompute": "reentrant"},
    "bf16": {"precision": BF16},
}


def make_model(tied: bool = False, frozen: bool = False, recompute: Any = "none") -> Tiny:
    """Frozen: the stem and half of the blocks, which is all that the first of two stages has."""
    model = Tiny(blocks=4, tied=tied, statistics=recompute == "none")
    if frozen:
        for part in (model.stem, *model.blocks[:2]):
            part.requires_grad_(False)
    checkpoint_blocks(model, recompute)
    return model


def train(strategy: Any, ranks: Ranks, name: str) -> dict[str, Any]:
    """Ten steps, and all there is to compare of them."""
    options = dict(RUNS[name])
    model_options = {k: options.pop(k) for k in ("tied", "frozen", "recompute") if k in options}
    prepared(strategy, make_model(**model_options), ranks, **options)
    steps = [strategy.step(batches(step, 4)) for step in range(STEPS)]
    evaluation = strategy.evaluate(batches(100, 5)).totals
    held = strategy.held()
    answer = {
        "losses": [float(step.loss) for step in steps],
        "norms": [float(step.grad_norm) for step in steps],
        "applied": [step.applied for step in steps],
        "evaluation": evaluation,
        "weights": {k: v.numpy() for k, v in strategy.full_weights().items()},
        "dtypes": held.dtypes(),
        "elements": sum(p.numel() for p in held.params),
    }
    strategy.close()
    return answer


def on_two_stages(ranks: Ranks) -> dict[str, Any]:
    """Everything that two stages show, in one gang."""
    answers: dict[str, Any] = {f"1f1b {name}": train(Pipeline(), ranks, name) for name in RUNS}
    answers["gpipe sgd"] = train(Pipeline("gpipe"), ranks, "sgd")
    answers["overflow"] = overflow_on_one_stage(ranks)
    answers["uncommon"] = uncommon_steps(ranks)
    return answers


def on_four_stages(ranks: Ranks) -> dict[str, Any]:
    answers = {f"1f1b {name}": train(Pipeline(), ranks, name) for name in ("sgd", "tied")}
    answers["gpipe sgd"] = train(Pipeline("gpipe"), ranks, "sgd")
    return answers


def on_one_stage(ranks: Ranks) -> dict[str, Any]:
    return {
        "1f1b tied": train(Pipeline("1f1b"), ranks, "tied"),
        "gpipe tied": train(Pipeline("gpipe"), ranks, "tied"),
    }


@pytest.fixture(scope="module")
def one() -> list[dict[str, Any]]:
    return run(on_one_stage, 1)


@pytest.fixture(scope="module")
def pair() -> list[dict[str, Any]]:
    return run(on_two_stages, 2)


@pytest.fixture(scope="module")
def four() -> list[dict[str, Any]]:
    return run(on_four_stages, 4)


@pytest.fixture(scope="module")
def reference() -> dict[str, dict[str, Any]]:
    return {name: train(Single(), alone(), name) for name in RUNS}


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_one_stage_is_one_process(
    schedule: str, one: list[dict[str, Any]], reference: dict[str, dict[str, Any]]
) -> None:
    answer, expected = one[0][f"{schedule} tied"], reference["tied"]
    assert answer["losses"] == expected["losses"]
    assert answer["norms"] == expected["norms"]


@pytest.mark.parametrize("case", [*(f"1f1b {name}" for name in RUNS), "gpipe sgd"])
def test_two_stages_train_as_one_process(
    case: str, pair: list[dict[str, Any]], reference: dict[str, dict[str, Any]]
) -> None:
    assert_same(pair, reference, case)


@pytest.mark.parametrize("case", ["1f1b sgd", "1f1b tied", "gpipe sgd"])
def test_four_stages_train_as_one_process(
    case: str, four: list[dict[str, Any]], reference: dict[str, dict[str, Any]]
) -> None:
    assert_same(four, reference, case)


def assert_same(
    by_rank: list[dict[str, Any]], reference: dict[str, dict[str, Any]], case: str
) -> None:
    """Losses, norms and evaluation on all ranks, the weights on rank 0."""
    expected = reference[case.partition(" ")[2]]
    for answers in by_rank:
        answer = answers[case]
        assert answer["losses"] == pytest.approx(expected["losses"], rel=1e-5)
        assert answer["norms"] == pytest.approx(expected["norms"], rel=1e-5)
        assert answer["applied"] == [True] * STEPS
        assert answer["dtypes"]["params"] == "float32"
        assert answer["dtypes"]["grads"] in ("float32", "")  # none on a stage that is frozen
        assert answer["evaluation"].keys() == {"loss", "accuracy"}
        for name, sums in expected["evaluation"].items():
            assert answer["evaluation"][name] == pytest.approx(sums, rel=1e-5)
    weights = by_rank[0][case]["weights"]
    assert list(weights) == list(expected["weights"])
    for name, value in expected["weights"].items():
        assert weights[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name


def test_each_rank_holds_its_part_and_rank_0_alone_gets_all(four: list[dict[str, Any]]) -> None:
    stem = head = 11 * 8
    block = 8 * 8 + 8 + 2 * 5
    parts = [answers["1f1b sgd"]["elements"] for answers in four]
    assert parts == [stem + block, block, block, block + head]
    assert all(answers["1f1b sgd"]["weights"] == {} for answers in four[1:])


def test_copies_of_a_tied_weight_stay_equal(pair: list[dict[str, Any]]) -> None:
    weights = pair[0]["1f1b tied adamw"]["weights"]
    assert (weights["stem.weight"] == weights["head.weight"]).all()


def overflow_on_one_stage(ranks: Ranks) -> dict[str, Any]:
    """Three fp16 steps, an inf in the second one's gradients on stage 0 alone."""
    strategy = prepared(Pipeline(), Tiny(blocks=2), ranks, precision=FP16)
    before = strategy.step(batches(0, 2))
    weights = [p.detach().clone() for p in strategy.stage.parameters()]
    handle = None
    if ranks.rank == 0:
        parameter = next(strategy.stage.parameters())
        handle = parameter.register_hook(lambda grad: torch.full_like(grad, math.inf))
    bad = strategy.step(batches(1, 2))
    if handle is not None:
        handle.remove()
    unchanged = all(
        torch.equal(old, new) for old, new in zip(weights, strategy.stage.parameters(), strict=True)
    )
    after = strategy.step(batches(2, 2))
    strategy.close()
    return {
        "applied": [before.applied, bad.applied, after.applied],
        "scales": [before.loss_scale, bad.loss_scale, after.loss_scale],
        "losses": [float(step.loss) for step in (before, bad, after)],
        "bad norm": float(bad.grad_norm),
        "unchanged": unchanged,
    }


def ten_samples() -> list[Batch]:
    """Five micro-batches of two samples, and one of padding alone."""
    ten = [*batches(3, 4, ragged=False), *batches(4, 1, ragged=False)]
    return [*ten, Batch(ten[0].inputs, ten[0].targets, 0)]


def uncommon_steps(ranks: Ranks) -> dict[str, Any]:
    """An evaluation before the first step, a step of padding alone, a frozen stage in fp16."""
    strategy = prepared(Pipeline("gpipe"), Tiny(blocks=2), ranks)
    evaluation = strategy.evaluate(ten_samples()).totals
    empty = strategy.evaluate([]).totals
    padding = strategy.step([Batch(b.inputs, b.targets, 0) for b in batches(0, 2)])
    strategy.close()

    model = Tiny(blocks=2)
    for part in (model.blocks[1], model.head):
        part.requires_grad_(False)
    frozen = prepared(Pipeline(), model, ranks, precision=FP16)
    steps = [frozen.step(batches(step, 3)) for step in range(2)]
    frozen.close()
    return {
        "evaluation": evaluation,
        "empty": empty,
        "padding": (float(padding.loss), float(padding.grad_norm)),
        "frozen": [step.applied for step in steps],
    }


def test_all_stages_skip_when_one_overflows(pair: list[dict[str, Any]]) -> None:
    for answers in pair:
        overflow = answers["overflow"]
        assert overflow["applied"] == [True, False, True]
        assert overflow["scales"] == [1024.0, 512.0, 512.0]
        assert overflow["unchanged"]
        assert not math.isfinite(overflow["bad norm"])
        assert overflow["losses"] == pair[0]["overflow"]["losses"]
        assert all(math.isfinite(loss) for loss in overflow["losses"])


def test_evaluation_counts_each_sample_once(pair: list[dict[str, Any]]) -> None:
    single = prepared(Single(), Tiny(blocks=2), alone())
    expected = single.evaluate(ten_samples()).totals
    assert expected["loss"][1] == 10 * 5
    for answers in pair:
        uncommon = answers["uncommon"]
        assert uncommon["evaluation"]["loss"] == pytest.approx(expected["loss"], rel=1e-6)
        assert uncommon["evaluation"]["accuracy"] == expected["accuracy"]
        assert uncommon["empty"] == {}


def test_steps_with_nothing_to_learn(pair: list[dict[str, Any]]) -> None:
    for answers in pair:
        assert answers["uncommon"]["padding"] == (0.0, 0.0)
        assert answers["uncommon"]["frozen"] == [True, True]
