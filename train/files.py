"""Small files of a run's folder, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` in one move: a reader never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def write_text(path: Path, text: str) -> None:
    """Replace `path` in one move."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replace `path` by `value` as strict JSON in one move."""
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The object in `path`; empty when there is no such file."""
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}


def finite(value: Any) -> Any:
    """`value` with numbers that JSON cannot write (nan, inf) as None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
