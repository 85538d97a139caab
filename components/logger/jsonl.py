"""`metrics.jsonl`: the record of a run that everything else mirrors."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, ClassVar

from components.logger.base import Logger, RunInfo


class JsonlLogger(Logger):
    """One strict JSON object a line, appended and handed to the system line by line.

    Numbers keep their full precision; what JSON cannot say (nan, inf) is null.
    NumPy and torch scalars are taken as numbers.

    Raises:
        OSError: from any method, when the line could not be written (a full disk).
    """

    essential: ClassVar[bool] = True

    def __init__(self, filename: str = "metrics.jsonl") -> None:
        self.filename = filename
        self._fd: int | None = None

    def start(self, info: RunInfo) -> None:
        path = info.folder / self.filename
        _drop_torn_line(path)
        # Unbuffered, so that a line that failed is not tried again on closing.
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def log(self, record: dict[str, Any]) -> None:
        if self._fd is None:
            raise RuntimeError("JsonlLogger.log was called outside start and finish")
        line = memoryview((json.dumps(plain(record), allow_nan=False) + "\n").encode())
        while line:
            line = line[os.write(self._fd, line) :]

    def finish(self, status: str, summary: dict[str, Any]) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def plain(value: Any) -> Any:
    """A record's value as strict JSON can hold it.

    Raises:
        TypeError: from `json.dumps` later on, if it is none of numbers, text,
            bool, None, and lists and dicts of them.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _drop_torn_line(path: Path) -> None:
    """Cut off a last line that a killed attempt left half-written."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
