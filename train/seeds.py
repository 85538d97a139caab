"""One seed, several streams: what must agree on all ranks does, what must differ does."""

from __future__ import annotations

import random

import numpy as np
import torch

INIT, DROPOUT = 0, 1
"""Streams of this module; the data layer has its own."""


def seed_init(seed: int) -> None:
    """Seed every library alike on all ranks: the model starts from equal weights."""
    _seed(np.random.SeedSequence([seed, INIT]))


def seed_rank(seed: int, rank: int) -> None:
    """Seed every library by rank: dropout masks differ between ranks."""
    _seed(np.random.SeedSequence([seed, DROPOUT, rank]))


def seed_resumed(seed: int, rank: int, step: int) -> None:
    """Seed every library by rank where no saved state fits: new draws, the same each time."""
    _seed(np.random.SeedSequence([seed, DROPOUT, rank, step]))


def _seed(sequence: np.random.SeedSequence) -> None:
    words = sequence.generate_state(3)
    torch.manual_seed(int(words[0]))
    np.random.seed(int(words[1]))
    random.seed(int(words[2]))
