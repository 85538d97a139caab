"""The browser in which pages are looked at."""

from __future__ import annotations

from tests.train.compare.report.conftest import browser

__all__ = ["browser"]
