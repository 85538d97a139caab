"""The sizes of a step: global batch = micro-batch x accumulation x data-parallel degree."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import ConfigError


@dataclass(frozen=True)
class Sizes:
    """All three sizes of a step, in samples and micro-batches, and the data-parallel degree."""

    global_batch_size: int
    micro_batch_size: int
    accumulation: int
    dp_size: int


def solve(
    global_batch_size: int | None,
    micro_batch_size: int | None,
    accumulation: int | None,
    dp_size: int,
    default_accumulation: int = 1,
) -> Sizes:
    """Take the size that is missing from the two that are given.

    With only the global batch given, accumulation is `default_accumulation`.

    Raises:
        ConfigError: when they do not multiply out; the message holds the arithmetic.
    """
    if global_batch_size is None:
        if micro_batch_size is None:
            raise ConfigError(
                "global_batch_size and micro_batch_size are both null: give one of them, "
                "as in global_batch_size=32."
            )
        accumulation = accumulation or default_accumulation
        total = micro_batch_size * accumulation * dp_size
        return Sizes(total, micro_batch_size, accumulation, dp_size)
    if micro_batch_size is None:
        accumulation = accumulation or default_accumulation
        micro_batch_size, left = divmod(global_batch_size, accumulation * dp_size)
        if left or not micro_batch_size:
            raise ConfigError(
                f"global_batch_size={global_batch_size} does not divide into accumulation="
                f"{accumulation} micro-batches on each of {dp_size} data-parallel ranks "
                f"({accumulation} x {dp_size} = {accumulation * dp_size}). "
                f"Nearest: {_nearest(global_batch_size, accumulation * dp_size)}."
            )
        return Sizes(global_batch_size, micro_batch_size, accumulation, dp_size)
    if accumulation is None:
        accumulation, left = divmod(global_batch_size, micro_batch_size * dp_size)
        if left or not accumulation:
            raise ConfigError(
                f"global_batch_size={global_batch_size} is no multiple of micro_batch_size="
                f"{micro_batch_size} on {dp_size} data-parallel ranks ({micro_batch_size} x "
                f"{dp_size} = {micro_batch_size * dp_size}). "
                f"Nearest: {_nearest(global_batch_size, micro_batch_size * dp_size)}."
            )
        return Sizes(global_batch_size, micro_batch_size, accumulation, dp_size)
    product = micro_batch_size * accumulation * dp_size
    if product != global_batch_size:
        raise ConfigError(
            f"global_batch_size={global_batch_size} is not micro_batch_size x accumulation x "
            f"data-parallel ranks: {micro_batch_size}x{accumulation}x{dp_size}={product}. Set one "
            f"of the three to null to have it derived, or global_batch_size={product}."
        )
    return Sizes(global_batch_size, micro_batch_size, accumulation, dp_size)


def _nearest(size: int, unit: int) -> str:
    low, high = size // unit * unit, (size // unit + 1) * unit
    choices = [n for n in (low, high) if n]
    return " or ".join(f"global_batch_size={n}" for n in choices)
