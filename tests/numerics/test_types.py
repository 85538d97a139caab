"""In which type things are held and computed, and what must keep its values."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.data.synthetic import Synthetic
from components.errors import ConfigError
from components.model.gpt import GPT
from components.model.stack import Stack
from components.parallel.activation_checkpointing import checkpoint_blocks
from components.parallel.ddp import DDP
from tests.fit import Result, Task, fit
from tests.gang import BF16, FP32, ON_TWO, STRATEGIES, alone, prepared, run
from tests.probes.probe_data import Given
from tests.probes.probe_models import Branches, Line, Weighted

SHARDED = ("fsdp", "zero1", "zero2", "zero3")


def gpt(frozen: bool = False, recompute: Any = "none") -> GPT:
    model = GPT(vocab_size=17, seq_len=8, layers=2, heads=2, width=16, dropout=0.0)
    if frozen:
        for part in (model.stem, model.blocks[0]):
            part.requires_grad_(False)
    checkpoint_blocks(model, recompute)
    return model


def tokens() -> Synthetic:
    return Synthetic(train_samples=24, val_samples=8, vocab_size=17, seq_len=8)


SGD = partial(torch.optim.SGD, lr=0.5)
TOKENS = Task(gpt, tokens, global_batch=4, steps=3, accumulation=2, optimizer=SGD)
FROZEN = TOKENS.but(
    model=partial(gpt, True), optimizer=partial(torch.optim.AdamW, lr=1e-2, weight_decay=0.1)
)


class Recorder(nn.Module):
    """Notes the types that its forward sees."""

    seen: dict[str, str]

    def __init__(self) -> None:
        super().__init__()
        self.product = nn.Linear(4, 4)
        self.register_buffer("table", torch.full((4,), 1.0001))

    def forward(self, hidden: Tensor) -> Tensor:
        out = self.product(hidden) * self.table
        self.seen = {
            "weight": str(self.product.weight.dtype),
            "product": str(self.product(hidden).dtype),
            "buffer": str(self.table.dtype),
            "output": str(out.dtype),
        }
        return out


class Recording(Stack):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Recorder()])
        self.head = nn.Linear(4, 3)


def features() -> Given:
    generator = torch.Generator().manual_seed(0)
    return Given(torch.randn(8, 4, generator=generator), torch.arange(8) % 3)


class Normed(Line):
    """Batch norm, then w*x."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.BatchNorm1d(1), Weighted(1)])


def zero_or_ten() -> Given:
    """The first of two ranks always sees 0, the second 10."""
    return Given(torch.tensor([[0.0], [0.0], [10.0], [10.0]]), torch.zeros(4))


NORMED = Task(Normed, zero_or_ten, global_batch=4, steps=1, eval_every=1)


def recording(ranks: Ranks, name: str) -> dict[str, Any]:
    """Two steps in bf16, and the types that its middle block saw."""
    seen: dict[str, Any] = {}

    def watch(strategy: Any) -> None:
        seen["block"] = strategy.plain.blocks[0]

    task = Task(Recording, features, global_batch=4, steps=2, optimizer=SGD, precision=BF16)
    result = fit(ranks, name, task, before=watch)
    return {"result": result, "seen": seen["block"].seen}


def evaluated_between(ranks: Ranks, name: str) -> tuple[Result, Result]:
    """Three bf16 steps with an evaluation before each but the first, and with none."""
    task = TOKENS.but(precision=BF16, model=gpt)
    return fit(ranks, name, task.but(eval_every=1)), fit(ranks, name, task)


def on_two(ranks: Ranks) -> dict[Any, Any]:
    answers: dict[Any, Any] = {}
    for name in ON_TWO:
        answers["evaluated", name] = evaluated_between(ranks, name)
        answers["frozen", name] = fit(ranks, name, FROZEN)
    for name in ("ddp", "fsdp", "zero1", "zero2", "zero3"):
        answers["normed", name] = fit(ranks, name, NORMED)
    answers["recording"] = recording(ranks, "fsdp")
    for kind, options in DDP_KINDS.items():
        for mode in ("full", "selective", "reentrant"):
            if (kind, mode) != ("search", "reentrant"):
                task = TOKENS.but(model=partial(gpt, recompute=mode))
                answers[kind, mode] = fit(ranks, DDP(**options), task)
    answers["unused"] = unused(ranks)
    return answers


DDP_KINDS: dict[str, dict[str, bool]] = {
    "plain": {},
    "search": {"find_unused_parameters": True},
    "static": {"static_graph": True},
}


def unused(ranks: Ranks) -> dict[str, Any]:
    """A branch without a share in the loss: refused, found by the search, or harmless."""
    task = Task(partial(Branches, 4, 3), features, global_batch=4, steps=5, optimizer=SGD)
    answers: dict[str, Any] = {"search": fit(ranks, DDP(find_unused_parameters=True), task)}
    for name in SHARDED:
        answers[name] = fit(ranks, name, task)
    try:
        fit(ranks, "ddp", task)
    except ConfigError as refusal:
        answers["refusal"] = str(refusal)
    return answers


@pytest.fixture(scope="module")
def gang() -> list[dict[Any, Any]]:
    return run(on_two, 2)


@pytest.fixture(scope="module")
def single() -> Result:
    return fit(alone(), "single", TOKENS)


def test_autocast_does_not_hand_weights_without_history_to_training() -> None:
    """A guard of torch itself: no-grad and training forwards in one region."""
    layer, ones = nn.Linear(4, 4, bias=False), torch.ones(1, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            layer(ones)
        layer(ones).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.sum() == 16


@pytest.mark.parametrize("name", ON_TWO)
def test_evaluation_leaves_no_trace_in_training(gang: list[dict[Any, Any]], name: str) -> None:
    for answers in gang:
        with_, without = answers["evaluated", name]
        assert len(with_.column("val/loss")) == 3
        assert with_.losses == without.losses
        assert with_.norms == without.norms


@pytest.mark.parametrize("name", ON_TWO)
def test_frozen_weights_stay_to_the_bit(gang: list[dict[Any, Any]], name: str) -> None:
    result = gang[0]["frozen", name]
    expected = fit(alone(), "single", FROZEN)
    assert result.losses == pytest.approx(expected.losses, rel=1e-5)
    for key, start in result.start.items():
        frozen = key.startswith(("stem.", "blocks.0."))
        assert torch.equal(result.weights[key], start) == frozen, key


def test_frozen_weights_have_no_optimizer_state(gang: list[dict[Any, Any]]) -> None:
    trainable = sum(p.numel() for p in gpt(frozen=True).parameters() if p.requires_grad)
    assert fit(alone(), "single", FROZEN).optimizer_elements == 2 * trainable
    for name in SHARDED:
        # Two moments for each trainable weight, over both ranks; padding makes shards equal.
        elements = sum(answers["frozen", name].optimizer_elements for answers in gang)
        assert 2 * trainable <= elements <= 2 * trainable + 64, name


@pytest.mark.parametrize("name", ["ddp", "fsdp", "zero1", "zero2", "zero3"])
def test_ranks_evaluate_and_save_the_mean_of_their_statistics(
    gang: list[dict[Any, Any]], name: str
) -> None:
    """A momentum of 0.1 makes the running mean 0 on one rank and 1 on the other."""
    weights = gang[0]["normed", name].weights
    assert weights["blocks.0.running_mean"].tolist() == pytest.approx([0.5])
    assert weights["blocks.0.num_batches_tracked"].item() == 1
    model = Normed()
    model.load_state_dict(weights)
    fresh = prepared(STRATEGIES["single"](), model, alone(), precision=FP32)
    samples = zero_or_ten().samples
    loss = fresh.evaluate([Batch(samples.inputs, samples.targets, 4)]).means()["loss"]
    for answers in gang:
        assert answers["normed", name].column("val/loss") == pytest.approx([loss], rel=1e-6)


def test_fsdp_computes_in_bf16_and_keeps_the_rest_in_fp32(gang: list[dict[Any, Any]]) -> None:
    for answers in gang:
        assert answers["recording"]["seen"] == {
            "weight": "torch.bfloat16",
            "product": "torch.bfloat16",
            "buffer": "torch.float32",
            "output": "torch.float32",
        }
        assert answers["recording"]["result"].held == {
            "params": "float32",
            "grads": "float32",
            "master": "",
            "optimizer": "",
            "buffers": "float32",
            "reduce": "float32",
        }
    table = gang[0]["recording"]["result"].weights["blocks.0.table"]
    assert torch.equal(table, torch.full((4,), 1.0001))


@pytest.mark.parametrize("mode", ["full", "selective", "reentrant"])
@pytest.mark.parametrize("kind", DDP_KINDS)
def test_recomputed_blocks_train_alike_under_ddp(
    gang: list[dict[Any, Any]], single: Result, kind: str, mode: str
) -> None:
    """All but re-entrant re-computation under the search, which preflight refuses."""
    if (kind, mode) == ("search", "reentrant"):
        assert (kind, mode) not in gang[0]
        return
    for answers in gang:
        assert answers[kind, mode].losses == pytest.approx(single.losses, rel=1e-5)
        assert answers[kind, mode].norms == pytest.approx(single.norms, rel=1e-5)


def test_ddp_names_the_parameters_without_a_gradient(gang: list[dict[Any, Any]]) -> None:
    for answers in gang:
        refusal = answers["unused"]["refusal"]
        assert "b.weight, b.bias" in refusal
        assert "parallel.find_unused_parameters=true" in refusal


@pytest.mark.parametrize("name", ["search", *SHARDED])
def test_an_unused_branch_stays_to_the_bit(gang: list[dict[Any, Any]], name: str) -> None:
    result = gang[0]["unused"][name]
    assert result.updates == 5
    assert all(math.isfinite(loss) for loss in result.losses)
    for key, start in result.start.items():
        assert torch.equal(result.weights[key], start) == key.startswith("b."), key
