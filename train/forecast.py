"""The memory that a run will take, worked out before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from components.parallel.base import Parallel
from components.precision import Precision
from train.plan.activations import Activations
from train.plan.place import MARGIN
from train.plan.strategies import kind_of
from train.plan.subject import subject_of
from train.sizes import Sizes
from train.units import said


@dataclass(frozen=True)
class Forecast:
    """The peak of the rank that needs the most.

    Attributes:
        total: bytes of all tensors at the peak.
        parts: those bytes by what they are held for.
        moment: when the peak is.
        memory: bytes of a rank's device.
    """

    total: int
    parts: dict[str, int]
    moment: str
    memory: int

    @property
    def fits(self) -> bool:
        """Whether the device has as much."""
        return self.total <= self.memory

    @property
    def close(self) -> bool:
        """Whether it fits, and leaves less than it should."""
        return self.fits and self.total > (1 - MARGIN) * self.memory

    def line(self) -> str:
        """In words."""
        return f"{said(self.total)} of {said(self.memory)} on a rank at the peak ({self.moment})"

    def cure(self) -> str:
        """What takes less."""
        if self.parts["activations"] > self.total / 2:
            return "A smaller micro_batch_size or model.checkpointing=full takes less."
        return "A strategy that divides what a rank holds, as parallel=fsdp, takes less."

    def record(self) -> dict[str, Any]:
        """As the run's provenance has it."""
        return {
            "total_peak": self.total,
            "at_peak": self.parts,
            "moment": self.moment,
            "device_bytes": self.memory,
        }


TRACES = Activations()
"""Of the models that this process has seen: the jobs of a sweep share them."""


def forecast(
    config: DictConfig,
    precision: Precision,
    parallel: Parallel,
    step: Sizes,
    world_size: int,
    device: str,
    memory: int,
) -> Forecast:
    """The forecast of a run.

    Args:
        config: resolved, every `_target_` checked already.
        device: `cuda` or `cpu`.
        memory: bytes of one rank's.

    Raises:
        ConfigError: when the model, its data or its strategy do not let it be known.
    """
    kind, gpu = kind_of(parallel), device == "cuda"
    way = kind.way(parallel, precision, gpu)
    subject = subject_of(config, precision, way, TRACES, may_read=False)
    peak = subject.held(
        kind, parallel, subject.share(config, precision, world_size, step, gpu)
    ).peak
    return Forecast(peak.total, peak.parts, peak.moment, memory)
