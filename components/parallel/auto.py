"""The strategy that the plan takes: a choice that is settled before the run starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from components.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Auto:
    """What a strategy is chosen among, and by whose times.

    Attributes:
        among: words of the group `parallel`.
        device: whose figures tell times: `auto` for this machine's as far as they are known, a
            name in conf/device, or a file of `python -m train.check --json`.
        margin: share of a device's memory that the chosen one leaves.
    """

    name: ClassVar[str] = "auto"
    one_process: ClassVar[bool] = False

    among: list[str]
    device: str = "auto"
    margin: float = 0.1

    def __post_init__(self) -> None:
        if not self.among or self.name in self.among:
            raise ConfigError(
                f"parallel.among={list(self.among)} must name strategies to choose among, as in "
                "parallel.among=[ddp,fsdp]."
            )
        if not 0 <= self.margin < 1:
            raise ConfigError(
                f"parallel.margin={self.margin} must be at least 0 and below 1: the share of a "
                "device's memory that is left free."
            )
