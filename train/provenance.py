"""Where a run came from: code, versions, machine, command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from uuid import uuid4

from train.files import read_json, write_json
from train.run_plan import Plan

PACKAGES = ("shardlab", "torch", "deepspeed", "hydra-core", "omegaconf", "wandb", "numpy")


def provenance() -> dict[str, Any]:
    """What can be said before the run starts; the ranks add data and dtypes."""
    return {
        "command": shlex.join(sys.orig_argv),
        "cwd": os.getcwd(),
        "git": _git(Path(__file__).parent),
        "python": platform.python_version(),
        "packages": versions(),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
    }


def note_attempt(plan: Plan, folder: Path, attempt: int) -> None:
    """Write provenance.json for an attempt; what it says of earlier ones stays."""
    path = folder / "provenance.json"
    before = read_json(path)
    now = provenance()
    told = {
        "attempt": attempt,
        "command": now["command"],
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed": plan.config.resume,
        "changes": list(plan.changes),
    }
    earlier = [entry for entry in before.get("attempts", []) if entry["attempt"] < attempt]
    content = {
        **now,
        "cell": plan.cell,
        "seed": plan.config.seed,
        "run": run_identity(before.get("run"), folder),
        "attempts": [*earlier, told],
    }
    write_json(path, content)


def run_identity(before: dict[str, str] | None, folder: Path) -> dict[str, str]:
    """The run's id, by which a tracker knows it, and the folder to which it belongs.

    A folder that was moved keeps its id. A copy beside its original gets one of its own.
    """
    place = str(folder.absolute())
    if before is None:
        return {"id": uuid4().hex[:12], "folder": place}
    if before["folder"] != place:
        other = read_json(Path(before["folder"]) / "provenance.json").get("run", {})
        if other.get("id") == before["id"]:
            print(f"{folder} is a copy of {before['folder']}: trackers know it as a run of its own")
            return {"id": uuid4().hex[:12], "folder": place}
    return {"id": before["id"], "folder": place}


def versions() -> dict[str, str | None]:
    """The versions of the packages that a run is made of."""
    return {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(directory: Path) -> dict[str, Any] | None:
    """Commit and whether the tree differs from it; None outside a repository."""

    def ask(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(directory), *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
