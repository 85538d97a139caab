"""status.json: how a run stands, whatever happens to it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from components.errors import ConfigError
from train.files import read_json, write_json

State = Literal["running", "completed", "failed", "preempted", "refused"]

FILE = "status.json"


def claim(folder: Path) -> None:
    """Take `folder` for a new run: from here on its status is `running`.

    Raises:
        ConfigError: when the folder already holds a run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(folder / FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        raise ConfigError(occupied(folder)) from None
    _update(folder, status="running", attempts=1, error=None, started=_now(), ended=None, steps=0)


def occupied(folder: Path) -> str:
    """The message for a folder that another run has."""
    return (
        f"hydra.run.dir={folder} already holds a run, and a run's folder is never shared or "
        "overwritten. Leave hydra.run.dir alone for a new folder, or name one that is empty."
    )


def finish(folder: Path, status: State, error: dict[str, Any] | None = None) -> None:
    """Write the end state. `error` holds cause, rank and traceback file."""
    summary = read_json(folder / "summary.json")
    _update(folder, status=status, error=error, ended=_now(), steps=summary.get("steps", 0))


def read(folder: Path) -> dict[str, Any]:
    """The status as it stands; empty when the folder has none."""
    return read_json(folder / FILE) if (folder / FILE).stat().st_size else {}


def _update(folder: Path, **fields: Any) -> None:
    path = folder / FILE
    before = read_json(path) if path.exists() and path.stat().st_size else {}
    write_json(path, {**before, **fields})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
