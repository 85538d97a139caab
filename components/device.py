"""A device that one may not have: its memory, how fast it computes and how fast it is reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from components.errors import ConfigError

TYPES = ("float32", "tf32", "bfloat16", "float16")
"""Of matrix products."""


def _above(least: float, value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value) and value > least


@dataclass(frozen=True)
class Measured:
    """How long a collective took.

    Attributes:
        ranks: that took part.
        points: (bytes of the whole message, seconds of a call), rising.
    """

    ranks: int
    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.points]
        if self.ranks < 2 or not sizes or sorted(set(sizes)) != sizes:
            raise ConfigError(f"a collective of {self.ranks} ranks over messages of {sizes} bytes")
        if not all(_above(0, size) and _above(0, seconds) for size, seconds in self.points):
            raise ConfigError(f"a collective's bytes and seconds {self.points} must be above 0")

    def seconds(self, size: float) -> float:
        """Of a message of so many bytes: between two that were measured on a straight line, beyond
        the largest in proportion."""
        low_size, low = 0.0, self.points[0][1]
        for high_size, high in self.points:
            if size <= high_size:
                share = (size - low_size) / (high_size - low_size)
                return low + share * (high - low)
            low_size, low = high_size, high
        return low * size / low_size


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator, as its maker's data sheet has it.

    Attributes:
        name: for readers.
        kind: `cuda` or `cpu`, as ranks know it.
        memory_bytes: what can be allocated; a data sheet's GB are 1e9 bytes here, which leaves
            some percent for what the driver and libraries take.
        flops: dense FLOP/s of matrix products by type (`float32`, `tf32`, `bfloat16`, `float16`);
            a type that the device cannot compute in is left out.
        memory_bytes_per_s: between its memory and its cores.
        link_bytes_per_s: to another one on the node, in one direction.
        network_bytes_per_s: to one on another node, in one direction, by the adapter that is the
            device's own; an assumption about usual machines. Collectives of all devices of a
            node use all its adapters.
        per_node: as many there are on a usual node.
        shared: whether the ranks of a node share it, as they do a CPU: memory and FLOP/s are then
            the share of one of `per_node`.
        operation_s: seconds that any operation takes at least.
        attained: share of these rates that a model's step attains, by type; left out it is 1, the
            least time.
        collectives: measured ones by name; those that are left out go by the links' bandwidth.
        knows_network: whether the figures between nodes are not those within one.
    """

    name: str
    memory_bytes: float
    flops: dict[str, float]
    memory_bytes_per_s: float
    link_bytes_per_s: float
    network_bytes_per_s: float
    per_node: int
    kind: Literal["cuda", "cpu"] = "cuda"
    operation_s: float = 0.0
    attained: dict[str, float] = field(default_factory=dict)
    collectives: dict[str, Measured] = field(default_factory=dict)
    shared: bool = False
    knows_network: bool = True

    def __post_init__(self) -> None:
        for group in ("flops", "attained"):
            by_type = getattr(self, group)
            if not isinstance(by_type, Mapping):
                raise ConfigError(f"device.{group}={by_type} must be figures by type.")
            for name in by_type:
                if name not in TYPES:
                    raise ConfigError(f"device.{group}.{name}: the types are {', '.join(TYPES)}.")
        figures = {
            "memory_bytes": self.memory_bytes,
            "memory_bytes_per_s": self.memory_bytes_per_s,
            "link_bytes_per_s": self.link_bytes_per_s,
            "network_bytes_per_s": self.network_bytes_per_s,
            "per_node": self.per_node,
            **{f"flops.{name}": rate for name, rate in self.flops.items()},
            **{f"attained.{name}": share for name, share in self.attained.items()},
        }
        for key, value in figures.items():
            if not _above(0, value):
                raise ConfigError(f"device.{key}={value} must be a number above 0.")
        if not isinstance(self.per_node, int):
            raise ConfigError(f"device.per_node={self.per_node} must be a whole number.")
        if any(share > 1 for share in self.attained.values()):
            raise ConfigError(f"device.attained={dict(self.attained)} must be shares, up to 1.")
        if self.operation_s != 0 and not _above(0, self.operation_s):
            raise ConfigError(f"device.operation_s={self.operation_s} must be seconds, 0 or more.")
        if not all(isinstance(one, Measured) for one in self.collectives.values()):
            raise ConfigError(
                "device.collectives cannot be written by hand: they are those of a check's file, "
                "cluster.device=FILE of python -m train.check --json FILE. Leave them out."
            )
        if "float32" not in self.flops:
            raise ConfigError(
                "device.flops has no float32: every run computes some operations in it. Give "
                "the FLOP/s of matrix products by type, as in conf/device/a100_80gb.yaml."
            )

    @property
    def measured(self) -> bool:
        """Whether its times are what a machine attains, and not the least that is possible."""
        return bool(self.attained)

    def among(self, ranks: int) -> Device:
        """What each of so many ranks of a node has of it: more, where fewer share it."""
        if not self.shared or ranks == self.per_node:
            return self
        share = self.per_node / ranks
        return replace(
            self,
            memory_bytes=share * self.memory_bytes,
            flops={name: share * rate for name, rate in self.flops.items()},
            per_node=ranks,
        )
