"""What stands in a page's text."""

from __future__ import annotations

import json
import re
from typing import Any


def content(text: str) -> dict[str, Any]:
    """What its figures are drawn from."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found is not None
    return json.loads(found.group(1))


def sections(text: str) -> list[str]:
    """Their names, in their order."""
    return re.findall(r'<section id="(\w+)"', text)
