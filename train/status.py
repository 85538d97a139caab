"""status.json: how a run stands, whatever happens to it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from components.errors import ConfigError
from train.files import read_json, write_json

State = Literal["running", "completed", "failed", "preempted", "refused"]

FILE = "status.json"

SPARE = Path("logs") / ".spare"
SPARE_BYTES = 256 * 1024
"""Room set aside while a run goes on, so that a full disk does not keep its end from being told."""


def check_free(folder: Path) -> None:
    """Refuse a folder that cannot be a new run's, before anything is written into it.

    Raises:
        ConfigError: when it holds a run, or cannot be made or written.
    """
    if (folder / FILE).exists():
        raise ConfigError(occupied(folder))
    absolute = folder.absolute()
    existing = next(parent for parent in (absolute, *absolute.parents) if parent.exists())
    if not existing.is_dir():
        reason = f"{existing} is a file"
    elif not os.access(existing, os.W_OK | os.X_OK):
        reason = f"{existing} cannot be written by this user"
    else:
        return
    raise ConfigError(
        f"hydra.run.dir={folder} cannot be made: {reason}. Set hydra.run.dir (for a sweep "
        "hydra.sweep.dir) to a place that can be written, as in hydra.run.dir=/tmp/mine."
    )


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
    (folder / SPARE).parent.mkdir(exist_ok=True)
    (folder / SPARE).write_bytes(bytes(SPARE_BYTES))
    _update(folder, status="running", attempts=1, error=None, started=_now(), ended=None, steps=0)


def occupied(folder: Path) -> str:
    """The message for a folder that another run has."""
    return (
        f"hydra.run.dir={folder} already holds a run, and a run's folder is never shared or "
        "overwritten. Leave hydra.run.dir alone for a new folder, or name one that is empty."
    )


def make_room(folder: Path) -> None:
    """Give the room that was set aside back to the disk."""
    (folder / SPARE).unlink(missing_ok=True)


def finish(folder: Path, status: State, error: dict[str, Any] | None = None) -> None:
    """Write the end state. `error` holds cause, rank and traceback file, and a step if known."""
    make_room(folder)
    steps = read_json(folder / "summary.json").get("steps", 0)
    steps = max(steps, (error or {}).get("step", 0), _last_recorded(folder))
    if error and error.get("kind") == "stopped":
        error = {**error, "step": steps}
    _update(folder, status=status, error=error, ended=_now(), steps=steps)


def seconds(folder: Path) -> float:
    """How long the run took, from its claim to its end."""
    start, end = (datetime.fromisoformat(read(folder)[key]) for key in ("started", "ended"))
    return (end - start).total_seconds()


def read(folder: Path) -> dict[str, Any]:
    """The status as it stands; empty when the folder has none."""
    path = folder / FILE
    return read_json(path) if path.exists() and path.stat().st_size else {}


def running(folder: Path) -> bool:
    """Whether the run has not come to an end that was told."""
    return read(folder).get("status") == "running"


def _last_recorded(folder: Path) -> int:
    """The last step in the run's records."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith(b"\n")]  # a full disk tears the last one
    return int(json.loads(whole[-1])["step"]) if whole else 0


def _update(folder: Path, **fields: Any) -> None:
    write_json(folder / FILE, {**read(folder), **fields})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
