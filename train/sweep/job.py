"""One job of a sweep: checked, started, and told of in its own folder, whatever happens."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from components.cluster.preemption import Notice
from components.errors import ConfigError
from train import failure, status
from train.files import read_json
from train.sweep.options import LOSS

if TYPE_CHECKING:
    from train.failure import Kind

REFUSED = 2

LINE = 120
"""Characters of a cause in a line; the whole stands in the job's status.json, and in the table."""


def run(config: DictConfig, folder: Path, notice: Notice) -> int:
    """Run one job to its end; its exit code.

    Args:
        config: resolved.
        folder: its own; a run that it holds is gone on with.
        notice: takes a warning that comes while ranks run.
    """
    from train import resume
    from train.launch import lead
    from train.preflight import preflight

    try:
        going = resume.going_on(folder) if status.read(folder) else None
        plan = resume.onto(preflight(config, None, folder), going)
        return lead(plan, folder, notice, going is not None)
    except ConfigError as refusal:
        record(folder, "refused", str(refusal))
        print(f"refused: {refusal}", file=sys.stderr, flush=True)
        return REFUSED


def record(folder: Path, kind: Kind, cause: str) -> None:
    """Record a job's end that no rank and no controller of it has told."""
    if not status.read(folder):
        status.claim(folder)
    end: status.State = "refused" if kind == "refused" else "failed"
    told = failure.in_status(failure.Failure(None, kind, cause, time.time()))
    status.finish(folder, end, told, attempt=status.read(folder).get("attempts", 1))


def objective(folder: Path, metric: str | None) -> float | None:
    """The last value of a job's objective; None when it has none, or did not complete."""
    if status.read(folder).get("status") != "completed":
        return None
    value = read_json(folder / "summary.json").get("last", {}).get(metric or LOSS)
    return None if value is None else float(value)


def headline(folder: Path, metric: str | None) -> str:
    """How a job ended, in one line."""
    state = status.read(folder)
    if state.get("status") == "completed":
        value = objective(folder, metric)
        found = "" if value is None else f", {metric or LOSS} {value:.4g}"
        return f"completed in {status.seconds(folder):.0f} s{found}"
    cause = " ".join(((state.get("error") or {}).get("cause") or "").split())
    words = [state.get("status", "not started"), shorten(cause, LINE, placeholder=" ...")]
    return ": ".join(word for word in words if word)
