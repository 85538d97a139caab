"""Numbers as people read them: a few digits, one unit for a whole column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from train.compare.report.markup import MISSING
from train.units import UNITS


@dataclass(frozen=True)
class Scale:
    """How the numbers of a column are written: divided by `factor`, by `write`, in `unit`."""

    unit: str
    factor: float
    write: Callable[[float], str]

    def text(self, value: float | None) -> str:
        """`value` without its unit; a dash for None, its name for a number that is not finite."""
        if value is None:
            return MISSING
        return self.write(value / self.factor) if math.isfinite(value) else words(value)

    def with_unit(self, value: float | None) -> str:
        """`value` with its unit."""
        text = self.text(value)
        gap = "" if self.unit == "×" else " "
        return f"{text}{gap}{self.unit}" if self.unit and value is not None else text

    def spread_text(self, spread: float) -> str:
        """A standard deviation without its unit: two digits, as much as a few runs support."""
        return significant(spread / self.factor, 2) if math.isfinite(spread) else words(spread)


def words(value: float) -> str:
    """The name of a number that is not finite."""
    return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"  # noqa: RUF001


def significant(value: float, digits: int = 4) -> str:
    """`value` to so many digits, with thousands set apart: 24,147; 188.7; 0.001650."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return minus(f"{value:,.{places}f}" if places < 9 else f"{value:.{digits - 1}e}")


def loss(value: float) -> str:
    """A loss to four places."""
    return minus(f"{value:.4f}" if abs(value) < 1e5 else f"{value:.3e}")


def signed(value: float) -> str:
    """A difference with its sign; small ones as powers of ten."""
    if value == 0:
        return "0"
    return minus(f"{value:+.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:+.1e}")


def small(value: float) -> str:
    """A relative difference, which may be 0 exactly."""
    return "0" if value == 0 else minus(f"{value:.1e}")


def whole(value: float) -> str:
    """A count."""
    return f"{value:,.0f}"


def minus(text: str) -> str:
    """`text` with a minus as wide as a plus."""
    return text.replace("-", "−")  # noqa: RUF001


PLAIN = Scale("", 1, significant)
LOSS = Scale("", 1, loss)
SIGNED = Scale("", 1, signed)
SMALL = Scale("", 1, small)
WHOLE = Scale("", 1, whole)
TIMES = Scale("×", 1, lambda value: significant(value, 3))
PERCENT = Scale("%", 0.01, lambda value: significant(value, 2) if value >= 1e-9 else "0")
SIGNED_PERCENT = Scale("%", 0.01, lambda value: f"{value:+.1f}" if abs(value) >= 0.05 else "0")
SECONDS = Scale("s", 1, lambda value: significant(value, 3))

TIME_UNITS = (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
BYTE_UNITS = tuple((name, size) for size, name in reversed(UNITS))


def time_scale(values: Sequence[float]) -> Scale:
    """µs, ms or s, by the middle of the values (in seconds)."""
    return _fitting(TIME_UNITS, values)


def byte_scale(values: Sequence[float]) -> Scale:
    """kB, MB or GB, by the middle of the values (in bytes)."""
    return _fitting(BYTE_UNITS, values)


def _fitting(units: Sequence[tuple[str, float]], values: Sequence[float]) -> Scale:
    finite = [value for value in values if math.isfinite(value)]
    middle = median(finite) if finite else 0.0
    unit, factor = next((pair for pair in reversed(units) if middle >= pair[1]), units[0])
    return Scale(unit, factor, significant)
