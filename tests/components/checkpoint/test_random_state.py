"""Every generator goes on where it stood."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch

from components.checkpoint import random_state
from components.checkpoint.snapshot import load_plain
from tests.gang import CPU


def draws() -> list[float]:
    """Of an odd number of normals: one is left over for the next call, in two of the generators."""
    return [
        random.random(),
        random.gauss(0.0, 1.0),
        float(np.random.rand()),
        float(np.random.standard_normal()),
        float(torch.rand(())),
        float(torch.randn(())),
    ]


def test_the_next_draws_are_the_same_through_a_file(tmp_path: Path) -> None:
    for module in (random, np.random):
        module.seed(5)
    torch.manual_seed(5)
    draws()
    torch.save({"random": random_state.capture(CPU)}, tmp_path / "own.pt")
    expected = [draws(), draws()]
    assert expected[0] != expected[1]
    random_state.restore(load_plain(tmp_path / "own.pt")["random"], CPU)
    assert [draws(), draws()] == expected


def test_a_captured_state_does_not_move(tmp_path: Path) -> None:
    state = random_state.capture(CPU)
    expected = draws()
    random_state.restore(state, CPU)
    assert draws() == expected
    random_state.restore(state, CPU)
    assert draws() == expected
