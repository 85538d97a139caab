"""report.html: one comparison as one page that needs nothing beside it, not even a network."""

from __future__ import annotations

from train.compare.report.page import write_report

__all__ = ["write_report"]
