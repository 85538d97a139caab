"""Bytes in words."""

from __future__ import annotations

UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def unit_of(size: float) -> tuple[float, str]:
    """The unit in which a table up to so many bytes is read best."""
    return next((unit for unit in UNITS if size >= unit[0]), UNITS[-1])


def said(size: float) -> str:
    """Bytes with three digits and a unit."""
    unit, name = unit_of(abs(size))
    return f"{in_unit(size, unit)} {name}"


def in_unit(size: float, unit: float) -> str:
    """With three digits where they count."""
    return f"{size / unit:.0f}" if abs(size) >= 100 * unit or not size else f"{size / unit:.3g}"
