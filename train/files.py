"""Small files of a run's folder, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from components.errors import ConfigError


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` in one move: a reader never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:  # a full disk would be left fuller
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Replace `path` in one move."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replace `path` by `value` as strict JSON in one move."""
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def refuse_unwritable(named: str, path: Path) -> None:
    """Before long work: that a file can be written in the end. A device would be replaced by one.

    Args:
        named: how the user has named it.

    Raises:
        ConfigError: when not.
    """
    place = path.resolve()
    if (place.exists() and not place.is_file()) or not os.access(place.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{named}: no file can be written there. Give a path in a folder of yours."
        )


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
