"""Precision as plain data: the types of a run and its loss-scale policy.

A `Precision` says *what* is wanted; each strategy in `components.parallel`
enacts it (autocast and `torch.amp.GradScaler`, FSDP's MixedPrecisionPolicy,
a DeepSpeed section). Parameters and optimizer state are fp32 under every
precision: fp16 and bf16 name the type of the *compute* only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from components.errors import ConfigError

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


LARGEST = torch.finfo(torch.float32).max


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The types of a run, and how its loss is scaled.

    Attributes:
        name: the word on the command line: `fp32`, `bf16` or `fp16`.
        compute_dtype: the type of matrix products, entered through autocast.
        tf32: let fp32 matrix products use TensorFloat-32 on a GPU that has it.
        enabled: scale the loss dynamically (fp16 only). `False` under fp16
            shows what underflow does; nothing is skipped then.
        init_scale, growth_factor, backoff_factor, growth_interval: the policy
            of `torch.amp.GradScaler`, the same under every strategy
            (Micikevicius et al., 2018, https://arxiv.org/abs/1710.03740).
        max_consecutive_skips: stop the run after so many skipped steps in a row.
    """

    name: str
    compute_dtype: Literal["float32", "bfloat16", "float16"]
    tf32: bool = False
    enabled: bool = False
    init_scale: float = 2.0**16
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    max_consecutive_skips: int = 25

    def __post_init__(self) -> None:
        if self.enabled and self.compute_dtype != "float16":
            raise ConfigError(
                f"precision.enabled=true asks for a loss scale, which {self.name} does not need: "
                f"only fp16 has one. Take precision=fp16 or drop precision.enabled."
            )
        for key, low in (("init_scale", 0.0), ("growth_factor", 1.0)):
            value = getattr(self, key)
            if not low < value <= LARGEST:
                raise ConfigError(
                    f"precision.{key}={value} must be above {low:g} and a number that fp32 holds "
                    f"(up to {LARGEST:.3g})."
                )
        if not 0.0 < self.backoff_factor < 1.0:
            raise ConfigError(
                f"precision.backoff_factor={self.backoff_factor} must lie between 0 and 1: "
                "the scale is multiplied by it after an overflow."
            )
        for key in ("growth_interval", "max_consecutive_skips"):
            if getattr(self, key) < 1:
                raise ConfigError(f"precision.{key}={getattr(self, key)} must be at least 1.")

    @property
    def compute(self) -> torch.dtype:
        """The compute type as a torch dtype."""
        return DTYPES[self.compute_dtype]

    @property
    def mixed(self) -> bool:
        """Whether the compute type is narrower than the fp32 of the parameters."""
        return self.compute is not torch.float32

    @property
    def scaled(self) -> bool:
        """Whether the loss is scaled dynamically."""
        return self.enabled
