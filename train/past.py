"""What earlier attempts of a run leave behind, kept apart from what the present one writes."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

OF_AN_ATTEMPT = ("nodes", "world_size")
"""Keys of status.json that hold for the present attempt alone."""


def put_aside(folder: Path, attempt: int, ranks: Collection[int] | None = None) -> None:
    """Leave nothing of an attempt that could be taken for the next one's.

    Tracebacks, stacks and the summary are kept, under `logs/attempt-N.*`.

    Args:
        ranks: whose; None is everybody's.
    """
    logs = folder / "logs"
    names = ["*"] if ranks is None else [f"rank-{rank}" for rank in ranks]
    for name in names:
        for path in logs.glob(f"{name}.failure.json"):
            path.unlink(missing_ok=True)
        for path in (*logs.glob(f"{name}.traceback.txt"), *logs.glob(f"{name}.stacks.txt")):
            if not path.stat().st_size:
                path.unlink()  # of a rank that nobody has asked for its stacks
            elif not path.name.startswith("attempt-"):
                path.rename(logs / f"attempt-{attempt}.{path.name}")
    if ranks is None:
        with suppress(FileNotFoundError):
            (folder / "summary.json").rename(logs / f"attempt-{attempt}.summary.json")


def ending(
    status: dict[str, Any], attempt: int, recorded: int, error: dict[str, Any] | None
) -> dict[str, Any]:
    """How an attempt ended, for the history of its run.

    Args:
        status: what status.json says of it.
        recorded: the last step in the records.
        error: why it ended, where that has not been told.
    """
    state = status.get("status")
    if state == "running":
        state = "preempted" if (error or {}).get("kind") == "preempted" else "failed"
        error = error or {"cause": "the process that led it is gone without a word"}
    else:
        error = status.get("error")
    steps = max(status.get("steps", 0), (error or {}).get("step", 0), recorded)
    return {
        "attempt": attempt,
        "ended": status.get("ended"),
        "status": state,
        "cause": (error or {}).get("cause"),
        "steps": steps,
        **{key: status[key] for key in OF_AN_ATTEMPT if key in status},
    }
