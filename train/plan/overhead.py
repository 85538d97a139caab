"""What a strategy does in a step besides what the model computes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from components.device import Device

COPIED, SUMMED = 2, 3
"""How often a tensor's bytes pass when it is copied or scaled, and when another is added to it."""


@dataclass
class Overhead:
    """Copies, messages and Python code of one rank's step.

    Attributes:
        copied: bytes that its copies and sums read and write.
        operations: its Python code's time, by operations that have nothing to do.
        messages: so many of each collective that moves tensors.
        scalars: all-reduces of a number: targets counted, losses summed, norms.
        times: so many micro-batches are like the one that is replayed.
    """

    copied: float = 0.0
    operations: float = 0.0
    messages: Counter[str] = field(default_factory=Counter)
    scalars: int = 0
    times: int = 1

    def copies(self, size: float) -> None:
        """So many bytes more are read or written in this micro-batch."""
        self.copied += self.times * size

    def runs(self, operations: float) -> None:
        """So much more Python code in this micro-batch."""
        self.operations += self.times * operations

    def sends(self, collective: str, messages: int = 1) -> None:
        """So many messages more in this micro-batch."""
        self.messages[collective] += self.times * messages

    def seconds(self, device: Device, share: float) -> float:
        """Of what the rank itself does: waiting for messages is not in it.

        Args:
            share: of its own best that the device attains.
        """
        code = self.operations * device.operation_s if device.kind == "cpu" else 0.0
        return self.copied / device.memory_bytes_per_s / share + code
