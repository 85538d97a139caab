"""status.json: how a run stands, whatever happens to it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from components.errors import ConfigError
from train import lock, past
from train.files import read_json, write_json

State = Literal["running", "completed", "failed", "preempted", "refused"]

FILE = "status.json"

SPARE = Path("logs") / ".spare"
SPARE_BYTES = 256 * 1024
"""Room set aside while a run goes on, so that a full disk does not keep its end from being told."""


class AttemptOver(Exception):
    """The run has gone on to a later attempt: this one may write nothing more."""


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


def claim(folder: Path) -> int:
    """Take `folder` for a new run, led by this process: its status is `running`; attempt 1.

    Raises:
        ConfigError: when the folder already holds a run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(folder / FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        raise ConfigError(occupied(folder)) from None
    lock.take(folder)
    _set_room_aside(folder)
    _update(folder, status="running", attempts=1, error=None, started=_now(), ended=None, steps=0)
    return 1


def reopen(folder: Path, error: dict[str, Any] | None = None) -> int:
    """Take the folder of an earlier attempt for the next one, led by this process; its number.

    What ranks said of their ends is put aside, and how the attempt ended goes into `history`.

    Args:
        error: of an attempt that this process led and that is to be tried again at once; its
            end has not been told.

    Raises:
        ConfigError: when another process leads this run at the moment.
    """
    lock.take(folder)
    before = read(folder)
    if error is not None:
        before["ended"] = _now()
    attempt = before.get("attempts", 1)
    history = [
        *before.get("history", []),
        past.ending(before, attempt, last_recorded(folder), error),
    ]
    past.put_aside(folder, attempt)
    _set_room_aside(folder)
    _update(
        folder,
        without=past.OF_AN_ATTEMPT,
        status="running",
        attempts=attempt + 1,
        error=None,
        attempt_started=_now(),
        ended=None,
        history=history,
    )
    return attempt + 1


def note_nodes(folder: Path, nodes: dict[str, str], world_size: int) -> None:
    """Write down who takes part in the present attempt.

    Args:
        nodes: hosts by node rank.
    """
    _update(folder, nodes=nodes, world_size=world_size)


def occupied(folder: Path) -> str:
    """The message for a folder that another run has."""
    return (
        f"hydra.run.dir={folder} already holds a run, and a run's folder is never shared or "
        "overwritten. Leave hydra.run.dir alone for a new folder, or name one that is empty."
    )


def _set_room_aside(folder: Path) -> None:
    (folder / SPARE).parent.mkdir(exist_ok=True)
    (folder / SPARE).write_bytes(bytes(SPARE_BYTES))


def make_room(folder: Path) -> None:
    """Give the room that was set aside back to the disk."""
    (folder / SPARE).unlink(missing_ok=True)


def finish(
    folder: Path, status: State, error: dict[str, Any] | None = None, *, attempt: int
) -> None:
    """Write the end state, and let the folder go.

    Does nothing when the run has gone on to a later attempt: a writer whose attempt is over
    may not write.

    Args:
        error: cause, rank and traceback file, and a step if known.
        attempt: which one has ended.
    """
    if read(folder).get("attempts", attempt) == attempt:
        make_room(folder)
        steps = read_json(folder / "summary.json").get("steps", 0)
        steps = max(steps, (error or {}).get("step", 0), last_recorded(folder))
        if error and error.get("kind") in ("stopped", "preempted"):
            error = {**error, "step": steps}
        _update(folder, status=status, error=error, ended=_now(), steps=steps)
    lock.release(folder)


def refuse_if_over(folder: Path, attempt: int) -> None:
    """Ask before writing what a later attempt would read.

    Raises:
        AttemptOver: when the run has gone on without this process.
    """
    present = read(folder).get("attempts", attempt)
    if present != attempt:
        raise AttemptOver(
            f"this process belongs to attempt {attempt} of {folder}, and attempt {present} has "
            "begun: it may write no more"
        )


def seconds(folder: Path) -> float:
    """How long the last attempt took, from its start to its end."""
    state = read(folder)
    start = state.get("attempt_started", state["started"])
    return (datetime.fromisoformat(state["ended"]) - datetime.fromisoformat(start)).total_seconds()


def read(folder: Path) -> dict[str, Any]:
    """The status as it stands; empty when the folder has none.

    Raises:
        ConfigError: when the file holds something else.
    """
    path = folder / FILE
    try:
        return read_json(path) if path.exists() and path.stat().st_size else {}
    except ValueError as error:
        raise ConfigError(
            f"{path} is damaged ({error}): put back a copy of it, or remove it and go on in "
            f"another folder by init_from={folder}."
        ) from error


def running(folder: Path) -> bool:
    """Whether the run has not come to an end that was told."""
    return read(folder).get("status") == "running"


def last_recorded(folder: Path) -> int:
    """The last step in the run's records."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith(b"\n")]  # a full disk tears the last one
    return int(json.loads(whole[-1])["step"]) if whole else 0


def _update(folder: Path, without: Collection[str] = (), **fields: Any) -> None:
    kept = {key: value for key, value in read(folder).items() if key not in without}
    write_json(folder / FILE, {**kept, **fields})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
