"""What happens to the jobs of a `-m` sweep: each to its own end, all of them told at last."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from components.cluster.joined import Joined
from components.errors import ConfigError
from train import status
from train.files import read_json

if TYPE_CHECKING:
    from train.command_line import CommandLine

OBJECTIVE = "val/loss"
"""The metric whose last value a search over configs is given."""

_ended: list[Path] = []


def refuse_in_gang(line: CommandLine, gang: Joined | None) -> None:
    """Refuse a sweep inside somebody else's gang: each job needs a gang of its own.

    Raises:
        ConfigError: with the command that works.
    """
    if gang is None or not line.multirun:
        return
    words = shlex.join(["python", "-m", "train", "-m", *line.overrides])
    raise ConfigError(
        f"-m under {gang.launcher}: a sweep starts a fresh gang of processes for each job, and "
        f"{gang.launcher} has started one already. Run instead: {words} "
        f"cluster.nproc_per_node={gang.local_world_size}"
    )


def refused(folder: Path, refusal: ConfigError) -> int:
    """Record a job that was refused; its exit code."""
    if not (folder / status.FILE).exists():
        status.claim(folder)
    status.finish(folder, "refused", {"cause": str(refusal), "rank": None, "traceback_file": None})
    print(f"refused: {refusal}", file=sys.stderr)
    return 2


def ended(folder: Path, code: int) -> float | None:
    """Note a job's end; its objective for a search, None without one.

    Raises:
        KeyboardInterrupt: when the job was interrupted: the sweep ends with it.
    """
    _ended.append(folder)
    if code >= 128:
        raise KeyboardInterrupt
    value = read_json(folder / "summary.json").get("last", {}).get(OBJECTIVE)
    return None if value is None else float(value)


def tell() -> int:
    """Name the jobs that did not complete; the sweep's exit code."""
    states = [(folder, status.read(folder)) for folder in _ended]
    bad = [(folder, state) for folder, state in states if state["status"] != "completed"]
    if states:
        print(f"\n{len(states) - len(bad)} of {len(states)} jobs completed", file=sys.stderr)
    for folder, state in bad:
        cause = ((state.get("error") or {}).get("cause") or "").splitlines()
        print(f"  {state['status']}: {folder}: {cause[0] if cause else ''}", file=sys.stderr)
    return 1 if any(state["status"] != "refused" for _, state in bad) else 2 if bad else 0
