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
from tests.gang import alone, run
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


def save_all(ranks: Ranks, words: tuple[str, ...], folder: Path) -> None:
    for word in words:
        train(ranks, word, TASK, folder / f"{word}{ranks.world_size}", stop=SAVED_AT)


def resume_all(
    ranks: Ranks, words: tuple[str, ...], folder: Path
) -> dict[tuple[str, tuple[str, int]], Told]:
    """By (resumed under, saved under)."""
    out = {}
    for saved, size in CORNERS:
        checkpoint = folder / f"{saved}{size}" / "checkpoints" / f"step-{SAVED_AT:06d}"
        for word in words:
            own = folder / f"from-{saved}{size}-{word}{ranks.world_size}"
            out[word, (saved, size)] = train(ranks, word, TASK, own, stop=STEPS, resume=checkpoint)
    return out


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """One process, never stopped."""
    return train(alone(), "single", TASK, tmp_path_factory.mktemp("straight"), stop=STEPS)


@pytest.fixture(scope="module")
def square(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[tuple[tuple[str, int], tuple[str, int]], Told]:
    """What the main rank tells, by ((resumed under, ranks), (saved under, ranks))."""
    folder = tmp_path_factory.mktemp("square")
    sizes = sorted({size for _, size in CORNERS})
    words = {n: tuple(word for word, size in CORNERS if size == n) for n in sizes}
    for size in sizes:
        run(save_all, size, words[size], folder)
    return {
        ((word, size), saved): told
        for size in sizes
        for (word, saved), told in run(resume_all, size, words[size], folder)[0].items()
    }


@pytest.mark.parametrize("saved", CORNERS, ids=lambda corner: f"saved-{corner[0]}x{corner[1]}")
@pytest.mark.parametrize("resumed", CORNERS, ids=lambda corner: f"resumed-{corner[0]}x{corner[1]}")
def test_the_curve_goes_on(
    square: dict[tuple[tuple[str, int], tuple[str, int]], Told],
    straight: Told,
    saved: tuple[str, int],
    resumed: tuple[str, int],
) -> None:
    told = square[resumed, saved]
    for name in ("train/loss", "train/grad_norm", "lr", "samples", "val/loss"):
        expected = {k: v for k, v in straight.by_step(name).items() if k > SAVED_AT}
        same_losses(told.by_step(name), expected, 1e-5)
