"""Small words between ranks beside training: over a group of their own, on the CPU."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from components.cluster.ranks import Ranks


class Control:
    """Agreement of all ranks, without a device and without a place in training's own traffic.

    All methods are collective. A thread beside training needs a `Control` of its own, or its
    words would mix with those of the main thread.

    Args:
        ranks: this process's place; the default process group exists.
        timeout_s: a word that waits longer for the others fails, seconds.

    Attributes:
        group: None in a run of one process.
    """

    def __init__(self, ranks: Ranks, timeout_s: float) -> None:
        self.ranks = ranks
        self.group = None
        if ranks.world_size > 1:
            self.group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s))

    def highest(self, *values: int) -> list[int]:
        """The highest of all ranks' values, each."""
        if self.group is None:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.int64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self.group)
        return [int(value) for value in tensor.tolist()]

    def gather(self, word: Any) -> list[Any]:
        """All ranks' words, by rank, on the main rank; empty on the others."""
        if self.group is None:
            return [word]
        words: list[Any] = [None] * self.ranks.world_size if self.ranks.main else []
        dist.gather_object(word, words if self.ranks.main else None, dst=0, group=self.group)
        return words

    def tell(self, word: Any) -> Any:
        """The main rank's word, on all ranks."""
        if self.group is None:
            return word
        words = [word]
        dist.broadcast_object_list(words, src=0, group=self.group)
        return words[0]
