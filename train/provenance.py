"""Where a run came from: code, versions, machine, command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("shardlab", "torch", "deepspeed", "hydra-core", "omegaconf", "wandb", "numpy")


def provenance() -> dict[str, Any]:
    """What can be said before the run starts; the ranks add data and dtypes."""
    return {
        "command": shlex.join(sys.orig_argv),
        "cwd": os.getcwd(),
        "git": _git(Path(__file__).parent),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
    }


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
