"""How DeepSpeed 0.19 deals weights out at ZeRO's stages 1 and 2: in rows, cut by the ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from train.plan.facts import Weight
from train.plan.holding import Share

ALIGNMENT = 2
"""Parts begin at multiples of so many elements."""


@dataclass(frozen=True)
class Row:
    """The weights of a decay group one behind the other, cut into a part for each rank.

    Attributes:
        part: elements of a rank's part.
        whole: of all parts, padding included.
    """

    weights: tuple[Weight, ...]
    part: int
    whole: int

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the weights."""
        return frozenset(weight.name for weight in self.weights)

    @cached_property
    def cuts(self) -> dict[str, dict[int, int]]:
        """How many elements of each weight are whose: by its name and by rank, in order."""
        cuts, begin = {}, 0
        for weight in self.weights:
            end = begin + weight.numel
            ranks = range(begin // self.part, (end - 1) // self.part + 1)
            cuts[weight.name] = {
                r: min(end, (r + 1) * self.part) - max(begin, r * self.part) for r in ranks
            }
            begin = end
        return cuts


def rows_of(share: Share) -> list[Row]:
    """Matrices, which decay, and vectors, which do not, as `decay_groups` deals them."""
    trained = [w for w in share.facts.weights if w.trainable]
    rows = []
    for weights in (
        tuple(w for w in trained if len(w.shape) > 1),
        tuple(w for w in trained if len(w.shape) < 2),
    ):
        if weights:
            unit = ALIGNMENT * share.world_size
            whole = math.ceil(sum(w.numel for w in weights) / unit) * unit
            rows.append(Row(weights, whole // share.world_size, whole))
    return rows
