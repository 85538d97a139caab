"""plan.page: the plan of one cell or several as a page that needs no network."""

from __future__ import annotations

from train.plan.page.page import write_page

__all__ = ["write_page"]
