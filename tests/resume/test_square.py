"""The whole square: whatever strategy saved a run, any other goes on with the same curve."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from components.cluster.ranks import Ranks
from components.data.synthetic import Synthetic
from components.model.gpt import GPT
from tests.fit import Task
from tests.gang import run
from tests.resume.stop_and_go import Told, same_losses, train

SAVED_AT, STEPS = 10, 30

CORNERS = (
    ("single", 1),
    ("ddp", 2),
    ("fsdp", 2),
    ("fsdp", 4),
    ("hsdp", 4),
    ("zero1", 2),
    ("zero2", 2),
    ("zero3", 2),
    ("zero3", 4),
    ("pipeline", 2),
)
"""(strategy, ranks)."""


def gpt() -> GPT:
    # Sizes that 2 and 4 ranks do not divide: rows, and elements of a flat row, are cut unevenly.
    return GPT(
        vocab_size=17,
        seq_len=8,
        layers=2,
        heads=3,
        width=9,
        dropout=0.0,
        tied_embeddings=True,
        positions="learned",
    )


def tokens() -> Synthetic:
    return Synthetic(
        train_samples=250,
        val_samples=10,
        vocab_size=17,
        seq_len=8,
        masked_fraction=0.3,
        epoch_end="partial",
    )


TASK = Task(
    gpt,
    tokens,
    24,
    STEPS,
    optimizer=partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1),
    clip_norm=0.5,
    eval_every=15,
)


Corner = tuple[str, int]
Pair = tuple[Corner, Corner]
"""(saved under, resumed under)."""

RING: list[Pair] = [
    (("single", 1), ("zero3", 2)),
    (("zero3", 2), ("fsdp", 4)),
    (("fsdp", 4), ("pipeline", 2)),
    (("pipeline", 2), ("zero1", 2)),
    (("zero1", 2), ("hsdp", 4)),
    (("hsdp", 4), ("ddp", 2)),
    (("ddp", 2), ("zero2", 2)),
    (("zero2", 2), ("fsdp", 2)),
    (("fsdp", 2), ("zero3", 4)),
    (("zero3", 4), ("single", 1)),
]
"""Each corner is saved once and resumed once."""

ALL: list[Pair] = [(saved, resumed) for saved in CORNERS for resumed in CORNERS]


def place(folder: Path, corner: Corner) -> Path:
    """Where a corner's training is saved."""
    return folder / f"{corner[0]}{corner[1]}"


def save_all(ranks: Ranks, folder: Path) -> None:
    """Train under each strategy of this size up to the step of the checkpoint."""
    for word, size in CORNERS:
        if size == ranks.world_size:
            train(ranks, word, TASK, place(folder, (word, size)), stop=SAVED_AT)


def resume_all(ranks: Ranks, pairs: list[Pair], folder: Path) -> dict[Pair, Told]:
    """Go on under each strategy of this size from the others' checkpoints."""
    out = {}
    for saved, resumed in pairs:
        if resumed[1] == ranks.world_size:
            checkpoint = place(folder, saved) / "checkpoints" / f"step-{SAVED_AT:06d}"
            own = folder / f"{saved}-{resumed}"
            out[saved, resumed] = train(ranks, resumed[0], TASK, own, stop=STEPS, resume=checkpoint)
    return out


def train_straight(ranks: Ranks, folder: Path) -> Told:
    return train(ranks, "single", TASK, folder, stop=STEPS)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """One process, never stopped."""
    told: Told = run(train_straight, 1, tmp_path_factory.mktemp("straight"))[0]
    return told


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all checkpoints."""
    folder = tmp_path_factory.mktemp("square")
    for size in sorted({size for _, size in CORNERS}):
        run(save_all, size, folder)
    return folder


def gone_on(pairs: list[Pair], folder: Path) -> dict[Pair, Told]:
    """What the main rank tells of each pair."""
    told: dict[Pair, Told] = {}
    for size in sorted({resumed[1] for _, resumed in pairs}):
        told |= run(resume_all, size, pairs, folder)[0]
    return told


@pytest.fixture(scope="module")
def ring(saved: Path) -> dict[Pair, Told]:
    return gone_on(RING, saved)


@pytest.fixture(scope="module")
def square(saved: Path) -> dict[Pair, Told]:
    return gone_on(ALL, saved)


def name(pair: Pair) -> str:
    return "-to-".join(f"{word}x{size}" for word, size in pair)


def difference(told: Told, straight: Told) -> float:
    """The largest relative difference of the losses after the checkpoint."""
    expected = {k: v for k, v in straight.by_step("train/loss").items() if k > SAVED_AT}
    losses = told.by_step("train/loss")
    assert losses.keys() == expected.keys()
    return max(abs(losses[step] / loss - 1) for step, loss in expected.items())


def check(told: Told, straight: Told) -> None:
    for metric in ("train/loss", "train/grad_norm", "lr", "samples", "val/loss"):
        expected = {k: v for k, v in straight.by_step(metric).items() if k > SAVED_AT}
        same_losses(told.by_step(metric), expected, 1e-5)


@pytest.mark.parametrize("pair", RING, ids=name)
def test_the_curve_goes_on(ring: dict[Pair, Told], straight: Told, pair: Pair) -> None:
    check(ring[pair], straight)


@pytest.mark.long
@pytest.mark.parametrize("pair", ALL, ids=name)
def test_the_whole_square(square: dict[Pair, Told], straight: Told, pair: Pair) -> None:
    check(square[pair], straight)


@pytest.mark.long
def test_the_table(square: dict[Pair, Told], straight: Told) -> None:
    """For docs/checkpoint.md: run with -s."""
    words = [f"{word} x{size}" for word, size in CORNERS]
    print(f"\n\n| saved under | {' | '.join(words)} |\n{'|---' * (len(words) + 1)}|")
    for saved, word in zip(CORNERS, words, strict=True):
        row = [f"{difference(square[saved, resumed], straight):.0e}" for resumed in CORNERS]
        print(f"| {word} | " + " | ".join(row) + " |")
    worst = max(difference(told, straight) for told in square.values())
    assert worst <= 1e-5
