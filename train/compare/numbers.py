"""Numbers as a reader wants them: few digits, and one unit for a column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from train.compare.rows import Value

MB, GB = 1e6, 1e9


@dataclass(frozen=True)
class Column:
    """How a column of `Row.values` is shown.

    Attributes:
        heading: with its unit, if it has one.
        show: a number in words.
        scale: what a number is divided by first.
    """

    heading: str
    show: Callable[[float], str]
    scale: float = 1.0

    def cell(self, value: Value) -> str:
        """A value, as `2.31 ± 0.04`; empty where it is not known."""
        if value.mean is None:
            return ""
        shown = self.show(value.mean / self.scale)
        if value.spread is None:
            return shown
        return f"{shown} ± {digits(value.spread / self.scale, 2)}"


def digits(number: float, significant: int = 3) -> str:
    """Rounded to so many significant digits, never in powers of ten unless far below 1.

    `1234.5` is `1,234`, `0.16784` is `0.168`, `2e-7` is `2.0e-07`.
    """
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    exponent = math.floor(math.log10(abs(number)))
    if exponent < -4:
        return f"{number:.1e}"
    return f"{number:,.{max(0, significant - 1 - exponent)}f}"


def loss(number: float) -> str:
    """Five significant digits: the spread between seeds is seldom below them."""
    return digits(number, 5)


def difference(number: float) -> str:
    """Signed, by its power of ten, which is what tells rounding from a mistake."""
    return f"{number:+.1e}" if math.isfinite(number) and number else f"{number:g}"


def whole(number: float) -> str:
    """A count; over several runs perhaps not a whole one."""
    return f"{number:,.0f}" if number % 1 == 0 else digits(number)


def factor(number: float) -> str:
    """`1.25x`, `0.078x`."""
    return f"{digits(number, 3 if number >= 1 else 2)}x"


def columns(values: Sequence[dict[str, Value]]) -> dict[str, Column]:
    """The columns of the terminal's table by name, in order, each in a unit that suits its values.

    Args:
        values: of all rows.
    """
    seconds = _smallest(values, "step_time_s") >= 1
    gb = _smallest(values, "peak_memory_bytes") >= GB
    return {
        "val_loss_last": Column("val loss", loss),
        "val_loss_best": Column("best val loss", loss),
        "train_loss_last": Column("train loss", loss),
        "loss_difference": Column("loss to reference", difference),
        "step_time_s": Column("s/step", digits) if seconds else Column("ms/step", digits, 1e-3),
        "samples_per_s": Column("samples/s", digits),
        "speed_up": Column("speed-up", factor),
        "peak_memory_bytes": Column("peak GB/rank", digits, GB)
        if gb
        else Column("peak MB/rank", digits, MB),
        "skipped_steps": Column("skipped steps", whole),
    }


def _smallest(values: Sequence[dict[str, Value]], name: str) -> float:
    known = (row[name].mean for row in values)
    return min((mean for mean in known if mean is not None), default=0.0)
