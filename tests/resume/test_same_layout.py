"""Stopped and gone on with as it was, a run is the uninterrupted one to the last bit.

With dropout, with fp16's loss scale between two growths, with fp32 masters behind bf16, in
the middle of an epoch, with and without worker processes, and with running statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from components.cluster.ranks import Ranks
from components.data.base import Data, Samples
from components.data.digits import Digits
from components.data.synthetic import Synthetic
from components.model.convnet import ConvNet
from components.model.gpt import GPT
from components.parallel.gate import Gate
from tests.fit import Task
from tests.gang import BF16, FP16, FP32, ON_TWO, alone, run
from tests.resume.stop_and_go import Told, equal_weights, train

STOP, STEPS = 7, 16

PRECISIONS = {
    "fp32": FP32,
    "bf16": BF16,
    # Grows after 5, 10 and 15 good steps: at step 7 it is on its way.
    "fp16": replace(FP16, init_scale=64.0, growth_interval=5),
}


class Stream(Data):
    """An endless supply of the same 44 sequences, in an order that random draws decide."""

    def train_set(self) -> Samples:
        return _Sequences()

    def record(self) -> dict[str, Any]:
        return {}


class _Sequences(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        samples = tokens().train_set()
        for index in range(44):
            inputs, targets = samples[index]  # type: ignore[index]
            yield inputs.roll(int(torch.randint(8, ()))), targets


def gpt() -> GPT:
    return GPT(vocab_size=17, seq_len=8, layers=2, heads=2, width=16, dropout=0.3)


def tokens(num_workers: int = 0) -> Synthetic:
    # Epochs of 5 whole steps: step 7 is in the middle of the second.
    return Synthetic(
        train_samples=44, val_samples=6, vocab_size=17, seq_len=8, num_workers=num_workers
    )


ADAMW = partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1, fused=True)
TASK = Task(gpt, tokens, 8, STEPS, optimizer=ADAMW, clip_norm=0.5, eval_every=4, log_every=3)

TASKS: dict[str, Task] = {
    **{name: TASK.but(precision=precision) for name, precision in PRECISIONS.items()},
    "workers": TASK.but(data=partial(tokens, 2)),
    "stream": TASK.but(data=partial(Stream, shuffle=False)),
    "stream, workers": TASK.but(data=partial(Stream, num_workers=2, shuffle=False)),
    "momentum": TASK.but(optimizer=partial(torch.optim.SGD, lr=0.1, momentum=0.9)),
    # Any step that is a little above the last five is skipped: what comes before the stop decides
    # on what comes after it.
    "spikes": TASK.but(
        gate=partial(Gate, on_spike="skip", factor=0.2, window=5), eval_every=0, log_every=1
    ),
    "stateless": TASK.but(optimizer=partial(torch.optim.SGD, lr=0.1)),
}
CASES = [
    *((word, task) for word in (*ON_TWO, "single") for task in PRECISIONS),
    *((word, task) for word in ("ddp", "zero3") for task in ("workers", "stateless")),
    *((word, "spikes") for word in ("ddp", "zero2", "pipeline")),
    *((word, "momentum") for word in ("fsdp", "zero1", "pipeline")),
    *(("ddp", task) for task in ("statistics", "stream", "stream, workers")),
]


def statistics() -> Task:
    """BatchNorm gathers statistics on each rank from its own samples."""
    return TASK.but(
        model=partial(ConvNet, channels=1, image_size=8, width=4, layers=2, classes=10),
        data=partial(Digits, image=True),
        eval_every=0,
    )


def both(ranks: Ranks, cases: list[tuple[str, str]], folder: Path) -> dict[Any, tuple[Told, Told]]:
    """Each case straight through, and stopped and gone on with: (straight, gone on)."""
    out = {}
    for word, name in cases:
        task = TASKS[name] if name in TASKS else statistics()
        own = folder / f"{word}-{name}"
        straight = train(ranks, word, task, own / "straight", stop=STEPS)
        first = train(ranks, word, task, own / "stopped", stop=STOP)
        second = train(ranks, word, task, own / "stopped", stop=STEPS, resume=first.checkpoint)
        second.records = first.records + second.records
        out[word, name] = straight, second
    return out


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, tuple[Told, Told]]:
    folder = tmp_path_factory.mktemp("same")
    single = [case for case in CASES if case[0] == "single"]
    two = [case for case in CASES if case[0] != "single"]
    return {**both(alone(), single, folder), **run(both, 2, two, folder)[0]}


METRICS = ("train/loss", "train/grad_norm", "lr", "loss_scale", "samples", "skipped_steps")


@pytest.mark.parametrize("word", ["ddp", "zero2", "pipeline"])
def test_steps_were_skipped_on_both_sides_of_the_stop(
    results: dict[Any, tuple[Told, Told]], word: str
) -> None:
    skipped = results[word, "spikes"][0].by_step("skipped_steps")
    assert 0 < skipped[STOP] < skipped[STOP + 3] < STEPS - STOP


@pytest.mark.parametrize(("word", "name"), CASES)
def test_it_is_the_uninterrupted_run(
    results: dict[Any, tuple[Told, Told]], word: str, name: str
) -> None:
    straight, gone_on = results[word, name]
    for metric in (*METRICS, "val/loss"):
        assert gone_on.by_step(metric) == straight.by_step(metric), metric
    if name != "spikes":  # which records every step
        assert list(straight.by_step("train/loss")) == [3, 6, 9, 12, 15, 16]
    equal_weights(gone_on.weights, straight.weights)


def test_the_scale_was_on_its_way(results: dict[Any, tuple[Told, Told]]) -> None:
    straight, _ = results["ddp", "fp16"]
    assert straight.by_step("loss_scale") == {
        3: 64.0,
        6: 128.0,
        9: 128.0,
        12: 256.0,
        15: 512.0,
        16: 512.0,
    }
