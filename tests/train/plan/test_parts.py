"""Parts by hand: what must come out whatever the trace is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from components.device import Device
from components.errors import ConfigError
from components.model.gpt import GPT
from components.objective import CrossEntropy
from components.parallel.activation_checkpointing import checkpoint_blocks
from tests.gang import BF16, FP32
from tests.train.plan.asked import planned
from train.command_line import compose_jobs, parse
from train.plan.facts import facts_of
from train.plan.fit import largest_fitting
from train.plan.optimizer_cost import cost_of
from train.plan.repeat import repeated, shortened
from train.plan.timeline import Timeline
from train.plan.trace import Sample, Way, trace
from train.plan.traffic import Message
from train.preflight import preflight

HERE = ["cluster.device=a100_80gb", "cluster.nproc_per_node=2"]
ROWS = 3


class Halves(nn.Module):
    """One trained layer and one frozen one, 8 x 8 each, whose weight is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.last = nn.Linear(8, 8, bias=False)
        self.again = self.last
        self.first.weight.requires_grad_(False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.again(self.last(self.first(inputs)))


def on_meta(make: type[nn.Module], **sizes: object) -> nn.Module:
    with torch.device("meta"):
        return make(**sizes)


def features() -> Sample:
    label = torch.empty((), dtype=torch.int64, device="meta")
    return Sample(torch.empty(8, device="meta"), label)


def test_frozen_and_shared_weights_count_once() -> None:
    facts = facts_of(on_meta(Halves))
    assert facts.parameters == 128
    assert facts.trainable == 64


def test_what_a_linear_layer_keeps_and_computes() -> None:
    events = trace(on_meta(Halves), CrossEntropy(), features(), ROWS, Way(FP32, False, False))
    loss = next(at for at, event in enumerate(events) if event[0] == "loss")
    kept = sum(s if k == "+" else -s for k, _, s, _ in events[:loss] if k in "+-")
    # The outputs of the first two layers (3 x 8 fp32 each), the log-probabilities (the same); the
    # weighted loss and the number of targets, fp32 scalars.
    assert kept == 3 * ROWS * 8 * 4 + 2 * 4
    assert sum(s for k, _, s, _ in events if k == "grad") == 64 * 4
    # Three products forward, 2 x 3 x 8 x 8 FLOP each; backward to the weight at both its uses, and
    # to the input of the second: nothing before it is trained.
    assert sum(flop for *_, flop in events) == 6 * 2 * ROWS * 8 * 8


def test_a_frozen_half_needs_no_gradient_and_no_state() -> None:
    cost = cost_of(partial(torch.optim.AdamW, lr=0.1))
    assert (cost.matrix, cost.vector) == (8, 8)
    # One tensor after the other on a CPU: of the largest, not of all. A GPU takes all at once.
    assert not cost.at_once
    assert cost.step_bytes([(100, 2), (50, 1)]) == 100 * 8  # a root, and that divided
    every = cost_of(partial(torch.optim.AdamW, lr=0.1), gpu=True)
    assert every.at_once
    # The roots, divided in place; vectors, which do not decay, in their own turn.
    assert every.step_bytes([(100, 2), (30, 2), (50, 1)]) == 130 * 4
    fused = cost_of(partial(torch.optim.AdamW, lr=0.1, fused=True), gpu=True)
    assert fused.step_bytes([(100, 2)]) == 0
    assert cost_of(partial(torch.optim.SGD, lr=0.1)).matrix == 0
    assert cost_of(partial(torch.optim.SGD, lr=0.1, momentum=0.9)).matrix == 4


def gpt(layers: int) -> nn.Module:
    sizes = {"vocab_size": 32, "seq_len": 16, "layers": layers, "heads": 2, "width": 16}
    return on_meta(GPT, **sizes, dropout=0.1, tied_embeddings=True)


def ids() -> Sample:
    some = torch.empty(16, dtype=torch.int64, device="meta")
    return Sample(some, some)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("checkpointing", ["none", "full", "selective"])
def test_like_blocks_are_traced_once(gpu: bool, half: bool, checkpointing: Any) -> None:
    """Under autocast and checkpointing the copies of all blocks' weights go at once."""
    way = Way(BF16, half, gpu)
    model = gpt(7)
    checkpoint_blocks(model, checkpointing)
    short = shortened(model)
    assert short is not None
    whole = trace(model, CrossEntropy(), ids(), 2, way)
    assert repeated(trace(short, CrossEntropy(), ids(), 2, way), 7) == whole


def test_blocks_that_differ_are_all_traced() -> None:
    model = gpt(7)
    model.blocks[5].dropout.p = 0.0
    assert shortened(model) is None


def test_blocks_that_were_told_otherwise_are_all_traced() -> None:
    """Every n-th block attends to all, say, and only a plain value of it tells."""
    model = gpt(7)
    for block in model.blocks:
        block.wide = False  # type: ignore[assignment]
    assert shortened(model) is not None
    model.blocks[5].wide = True  # type: ignore[assignment]
    assert shortened(model) is None


def test_sizes_between_traces_are_linear() -> None:
    asked: list[int] = []

    def traced(rows: int) -> list[tuple[str, str, int, float]]:
        asked.append(rows)
        return trace(gpt(2), CrossEntropy(), ids(), rows, Way(BF16, False, False))

    line = Timeline(traced)
    assert line.at(4) == traced(4)  # the first is traced itself
    assert line.at(5) == traced(5)
    assert line.at(4) is line.at(4)
    assert asked == [4, 4, 2, 3, 7, 5]


def test_a_model_that_is_not_linear_is_traced_at_each_number() -> None:
    """As one that compares each sample of a batch with each."""

    def traced(rows: int) -> list[tuple[str, str, int, float]]:
        return [("+", "", 4 * rows * rows, 0.0)]

    line = Timeline(traced)
    sizes = [line.at(rows)[0][2] for rows in (4, 2, 3, 7, 100)]
    assert sizes == [64, 16, 36, 196, 40_000]


def test_the_largest_that_fits() -> None:
    # 7 bytes whatever comes, 3 a sample, and 4 a sample beyond the tenth.
    def peak(rows: int) -> int:
        return 7 + 3 * rows + 4 * max(rows - 10, 0)

    assert largest_fitting(9, peak) == 0
    assert largest_fitting(10, peak) == 1
    assert largest_fitting(37, peak) == 10
    assert largest_fitting(51, peak) == 12


def test_a_ring_sends_its_share() -> None:
    assert Message("all-reduce", 100, 4).sent == 150
    assert Message("all-gather", 100, 4).sent == 75
    assert Message("reduce-scatter", 100, 4).sent == 75


def test_the_network_is_what_counts_between_nodes() -> None:
    device = Device(
        name="toy",
        memory_bytes=1,
        flops={"float32": 1},
        memory_bytes_per_s=1,
        link_bytes_per_s=100,
        network_bytes_per_s=10,
        per_node=4,
    )
    assert Message("all-gather", 800, 4).seconds(device, 4) == 6  # 3/4 of it, over links
    # 7/8 of it, over the network, which four ranks of a node use at once.
    assert Message("all-gather", 800, 8).seconds(device, 4) == 700 / 40
    # As many adapters as would do more than the links do not.
    assert Message("all-gather", 800, 32).seconds(device, 16) == 31 / 32 * 800 / 100
    # Two replicas of eight ranks each: every pair lies on two nodes, and has one adapter on each.
    assert Message("all-reduce", 800, 2, 16).seconds(device, 4) == 80
    # Four replicas of two ranks each: of the four ranks that reduce together two lie on a node.
    assert Message("all-reduce", 800, 4, 8).seconds(device, 4) == 1200 / 20
    # One stage hands over to the next.
    assert Message("send", 800, 8).seconds(device, 4) == 80


def test_checkpointing_leaves_less_and_computes_more() -> None:
    words = [*HERE, "parallel=ddp", "model.layers=8"]
    plain = planned(*words)
    again = planned(*words, "model.checkpointing=full")
    assert again.per_rank["activations"] < 0.5 * plain.per_rank["activations"]
    assert plain.step_time_s is not None
    assert again.step_time_s is not None
    assert again.step_time_s > 1.2 * plain.step_time_s


def test_the_selective_form_lies_between() -> None:
    words = [*HERE, "parallel=ddp", "model.layers=8"]
    held = {
        form: planned(*words, f"model.checkpointing={form}").per_rank["activations"]
        for form in ("none", "selective", "full")
    }
    assert held["full"] < held["selective"] < held["none"]


def test_compiled_blocks_are_counted_as_plain_ones() -> None:
    plain, compiled = (planned(*HERE, "parallel=ddp", f"compile={on}") for on in ("false", "true"))
    assert compiled.per_rank == plain.per_rank
    assert [note for note in compiled.notes if note not in plain.notes] == [
        "what compiled blocks keep is not known before they are: counted as plain ones'"
    ]


def test_a_bare_number_is_not_trained(tmp_path: Path) -> None:
    (job,) = compose_jobs(parse(["model=parameters", "model.count=1e6", "logger=none"]))
    with pytest.raises(ConfigError, match=r"planned for, as in python -m train\.plan"):
        preflight(job.config, None, tmp_path)
