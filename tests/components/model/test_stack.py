from __future__ import annotations

import torch
from torch import nn

from components.model.stack import Stack, blocks_of, is_stack


class Doubling(Stack):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Identity()
        self.blocks = nn.ModuleList(Double() for _ in range(blocks))
        self.head = nn.Flatten()


class Double(nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return 2 * hidden


def test_runs_stem_blocks_and_head_in_order() -> None:
    assert torch.equal(Doubling(3)(torch.ones(2, 1, 1)), torch.full((2, 1), 8.0))


def test_a_stack_needs_blocks() -> None:
    assert is_stack(Doubling(1))
    assert not is_stack(Doubling(0))


def test_a_module_without_blocks_has_none() -> None:
    assert blocks_of(nn.Linear(2, 2)) == []
    assert not is_stack(nn.Linear(2, 2))
