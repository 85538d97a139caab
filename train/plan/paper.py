"""Memory as papers count it: parameters, gradients and optimizer state alone, nothing besides.

Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054, section 3.1 and figure 1. In mixed
precision: 2 bytes a parameter, 2 its gradient, K = 12 the optimizer with Adam (4 the fp32 master,
8 two moments). In fp32: 4, 4 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Among how many ranks each part is divided."""

    params: int = 1
    grads: int = 1
    optimizer: int = 1

    @classmethod
    def all(cls, ranks: int) -> Spread:
        """Everything among `ranks`."""
        return cls(ranks, ranks, ranks)

    @classmethod
    def stage(cls, stage: int, ranks: int) -> Spread:
        """As ZeRO's stages do: optimizer state; + gradients; + parameters."""
        return cls(ranks if stage > 2 else 1, ranks if stage > 1 else 1, ranks)


def paper_bytes(
    parameters: int, trainable: int, mixed: bool, spread: Spread, state: float
) -> dict[str, float]:
    """Bytes on a rank by part, and their sum as `total`.

    Args:
        state: bytes of optimizer state by trained parameter, without the master; 8 with Adam.
    """
    half = 2 if mixed else 4
    parts = {
        "params": half * parameters / spread.params,
        "grads": half * trainable / spread.grads,
        "master": (4 if mixed else 0) * trainable / spread.optimizer,
        "optimizer": state * trainable / spread.optimizer,
    }
    return {**parts, "total": sum(parts.values())}
