from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from components.model.rotary import Rotary


def at(rotary: Rotary, vector: torch.Tensor, position: int) -> torch.Tensor:
    """The vector turned as if it stood at `position`."""
    heads = torch.zeros(1, 1, rotary.seq_len, rotary.head_dim)
    heads[0, 0, position] = vector
    return rotary(heads)[0, 0, position]


def test_turns_by_the_angle_of_position_and_pair() -> None:
    # Pairs are (0, 2) and (1, 3); pair 1 turns by 10000 ** -(2 / 4) = 0.01 a position.
    turned = at(Rotary(4, 8), torch.tensor([1.0, 1.0, 0.0, 0.0]), 3)
    expected = torch.tensor([math.cos(3), math.cos(0.03), math.sin(3), math.sin(0.03)])
    torch.testing.assert_close(turned, expected)


def test_scores_depend_on_the_distance_only() -> None:
    torch.manual_seed(0)
    rotary = Rotary(8, 32)
    query, key = torch.randn(8), torch.randn(8)
    scores = [at(rotary, query, 5 + shift) @ at(rotary, key, 2 + shift) for shift in (0, 1, 26)]
    other = at(rotary, query, 6) @ at(rotary, key, 2)
    assert scores[1] == pytest.approx(scores[0].item(), abs=1e-5)
    assert scores[2] == pytest.approx(scores[0].item(), abs=1e-5)
    assert abs(other - scores[0]) > 1e-3


def test_tables_stay_fp32_and_right_when_the_module_is_cast() -> None:
    rotary = nn.Sequential(Rotary(8, 512)).bfloat16()[0]
    assert isinstance(rotary, Rotary)
    assert rotary.cos.dtype is torch.float32
    # bf16 cannot tell 257 from 256.
    assert rotary.cos[257, 0].item() == pytest.approx(math.cos(257), abs=1e-4)


def test_tables_are_filled_after_construction_on_meta() -> None:
    with torch.device("meta"):
        rotary = Rotary(8, 16)
    assert rotary.cos.is_meta
    rotary.to_empty(device="cpu")
    torch.testing.assert_close(rotary.sin, Rotary(8, 16).sin, rtol=0, atol=0)


def test_tables_are_not_in_the_state_dict() -> None:
    assert list(Rotary(8, 16).state_dict()) == []


def test_keeps_the_type_of_its_input() -> None:
    heads = torch.randn(1, 2, 4, 8, dtype=torch.bfloat16)
    assert Rotary(8, 4)(heads).dtype is torch.bfloat16
