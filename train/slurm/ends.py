"""How a run ended whose job left no word: what Slurm says of it, as the run's status."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import ConfigError
from train import failure, status
from train.slurm.queue import Standing
from train.slurm.submission import Submission

if TYPE_CHECKING:
    from train.failure import Kind

NOTHING_SAVED = "nothing is saved beyond the last checkpoint"

CANCELLED = frozenset({"CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE"})
"""States in which somebody wanted an end: the run is preempted, and can go on."""

BAD_NODE = frozenset({"NODE_FAIL", "BOOT_FAIL"})


def told(folder: Path, before: str | None) -> bool:
    """Whether a run has come to an end that its own processes have told.

    Args:
        before: when an earlier attempt ended, which does not count.
    """
    state = status.read(folder)
    return state.get("status") not in (None, "running") and state.get("ended") != before


def explain(submission: Submission, index: int, standing: Standing | None) -> tuple[Kind, str]:
    """The kind of failure, and the cause, of a job that has ended without a word.

    Args:
        standing: what Slurm says of it; None when Slurm has forgotten it.
    """
    tried = begun(submission, index)
    element, log = submission.element(index), submission.log(index)
    if standing is None:
        return "killed", f"Slurm knows job {element} no more, and it has told no end: see {log}"
    said = f"Slurm's job {element}: {standing.words}"
    if standing.state in CANCELLED:
        when = f"before the run had saved: {NOTHING_SAVED}" if tried else "before the run began"
        return "preempted", f"{said}, {when}"
    if standing.state == "OUT_OF_MEMORY":
        return "out_of_memory", f"{said}: raise hydra.launcher.memory, or take a smaller batch"
    if standing.state in BAD_NODE:
        return "killed", f"{said}: a node failed, and {NOTHING_SAVED}"
    if tried:
        return "killed", f"{said}: what led the run is gone without a word; see {log}"
    return "error", f"{said}: its batch script ended before the run began{_last_words(log)}"


def record(folder: Path, kind: Kind, cause: str) -> None:
    """Give a run its end; one that has ended before has had one more attempt, which came to this.

    Where another process still leads it, nothing is written.
    """
    state = status.read(folder)
    try:
        attempt = int(state.get("attempts", 1))
        if not state:
            attempt = status.claim(folder)
        elif state["status"] != "running":
            attempt = status.reopen(folder)
    except ConfigError as taken:
        print(f"not recorded: {cause} ({taken})", file=sys.stderr, flush=True)
        return
    end: status.State = "preempted" if kind == "preempted" else "failed"
    told_so = failure.in_status(failure.Failure(None, kind, cause, time.time()))
    status.finish(folder, end, told_so, attempt=attempt)


def give_up(folder: Path, cause: str) -> None:
    """Make a run's last attempt, whose end may be told already, the last that is made by itself."""
    attempt = status.read(folder).get("attempts", 1)
    told_so = failure.in_status(failure.Failure(None, "killed", cause, time.time()))
    status.finish(folder, "failed", told_so, attempt=attempt)


def begun(submission: Submission, index: int) -> bool:
    """Whether an attempt has been made since a run was submitted."""
    state = status.read(submission.folder(index))
    return bool(state.get("attempts", 0) > submission.runs[index].attempts)


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return f"; it has left no {log}"
    last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return f", having said last: {last}  ({log})"
