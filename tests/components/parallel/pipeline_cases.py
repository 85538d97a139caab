"""Small stacks, and what they are trained on."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from components.data.batch import Batch
from components.model.stack import Stack
from components.objective import IGNORE

VOCAB, WIDTH, LENGTH = 11, 8, 5


class Block(nn.Module):
    """A residual block; with running statistics each forward in training leaves its trace."""

    def __init__(self, statistics: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(LENGTH) if statistics else nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + F.gelu(self.mix(self.norm(hidden)))


class Tiny(Stack):
    """(rows, LENGTH) tokens to (rows, LENGTH, VOCAB) logits."""

    def __init__(self, blocks: int = 4, tied: bool = False, statistics: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Block(statistics) for _ in range(blocks))
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if tied:
            self.head.weight = self.stem.weight


def batches(step: int, count: int, rows: int = 2, ragged: bool = True) -> list[Batch]:
    """Micro-batches of one step: unequal numbers of masked targets, the last row a padding one."""
    generator = torch.Generator().manual_seed(step)
    out = []
    for index in range(count):
        inputs = torch.randint(VOCAB, (rows, LENGTH), generator=generator)
        targets = torch.randint(VOCAB, (rows, LENGTH), generator=generator)
        if ragged:
            targets[0, : (index + step) % LENGTH] = IGNORE
        out.append(Batch(inputs, targets, rows))
    if ragged:
        out[-1].valid = rows - 1
    return out
