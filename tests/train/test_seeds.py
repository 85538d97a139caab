"""What must agree on all ranks does, what must differ does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from train.seeds import seed_init, seed_rank


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    yield
    torch.set_rng_state(states[0])
    np.random.set_state(states[1])
    random.setstate(states[2])


def draws(seed: Callable[[], None]) -> tuple[tuple[float, ...], float, float]:
    seed()
    mask = F.dropout(torch.ones(64), p=0.5)
    return tuple(mask.tolist()), float(np.random.random()), random.random()


def test_initial_weights_are_the_same_on_every_rank_and_differ_by_seed() -> None:
    first, again, other = (draws(lambda s=s: seed_init(s)) for s in (0, 0, 1))  # type: ignore[misc]
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_dropout_masks_differ_by_rank_in_every_library_and_repeat() -> None:
    streams = [draws(lambda r=r: seed_rank(0, r)) for r in range(4)]  # type: ignore[misc]
    streams.append(draws(lambda: seed_init(0)))
    for values in zip(*streams, strict=True):
        assert len(set(values)) == 5
    assert draws(lambda: seed_rank(0, 2)) == streams[2]
