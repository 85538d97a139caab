"""A config for others to see: what only its owner may know is left out."""

from __future__ import annotations

import re
from typing import Any

LEFT_OUT = "left out"

SECRET = re.compile(
    r"(^|_)(password|passwd|passphrase|secret|credentials?"
    r"|(api|access|private|secret)_?keys?|(api|access|auth|bearer|hf)_?tokens?)($|_)|^token$",
    re.IGNORECASE,
)
"""Keys of secrets. Not each with `token` in it: that would hide the tokenizer."""


def without_secrets(value: Any) -> Any:
    """A copy of plain containers, with `left out` for what stands at the key of a secret."""
    if isinstance(value, dict):
        return {
            key: LEFT_OUT if item is not None and SECRET.search(str(key)) else without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    return value
