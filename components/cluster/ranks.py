"""One process's place among the ranks of a run."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Ranks:
    """Who this process is.

    Attributes:
        rank, world_size: this process among all.
        local_rank: this process among those of its node.
        device: where it computes.
    """

    rank: int
    world_size: int
    local_rank: int
    device: torch.device

    @property
    def main(self) -> bool:
        """Whether this rank writes the record."""
        return self.rank == 0
