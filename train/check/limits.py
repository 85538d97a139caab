"""How much is measured, and so how long a check takes."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1024, 1024**2


@dataclass(frozen=True)
class Limits:
    """Sizes and repeats of one check.

    Attributes:
        sizes: bytes of the messages of collectives, rising.
        repeats: how often each is timed; the median counts.
        repeat_s: how long one repeat lasts about: short calls are made many times in it.
        size_s: a size that is expected to take longer in all is left out.
        link_bytes: of the large message between two ranks.
        matrix: the largest edge of a matrix product.
        product_s: edges are doubled until one product takes so long.
        copy_bytes: of a copy within a device's memory.
    """

    sizes: tuple[int, ...]
    repeats: int
    repeat_s: float
    size_s: float
    link_bytes: int
    matrix: int
    product_s: float
    copy_bytes: int


FULL = Limits(
    sizes=(KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB),
    repeats=5,
    repeat_s=0.02,
    size_s=3.0,
    link_bytes=4 * MIB,
    matrix=8192,
    product_s=0.05,
    copy_bytes=64 * MIB,
)
QUICK = Limits(
    sizes=(KIB, 64 * KIB),
    repeats=3,
    repeat_s=0.005,
    size_s=1.0,
    link_bytes=64 * KIB,
    matrix=128,
    product_s=0.01,
    copy_bytes=4 * MIB,
)
BEFORE_RUN = Limits(
    sizes=(KIB, 64 * KIB, MIB),
    repeats=3,
    repeat_s=0.01,
    size_s=1.0,
    link_bytes=MIB,
    matrix=4096,
    product_s=0.01,
    copy_bytes=16 * MIB,
)
