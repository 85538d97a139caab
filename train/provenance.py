"""Where a run came from: code, versions, machine, command."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any
from uuid import uuid4

from train.code_state import code_state
from train.files import read_json, write_json
from train.run_plan import Plan

PACKAGES = ("shardlab", "torch", "deepspeed", "hydra-core", "omegaconf", "wandb", "numpy")

VARIABLES = (
    *(
        "CUDA_",
        "NVIDIA_VISIBLE",
        "NCCL_",
        "GLOO_",
        "TORCH",
        "PYTORCH_",
        "DS_",
        "OMP_",
        "MKL_",
        "KMP_",
        "PYTHON",
    ),
    *("SLURM_JOB", "SLURM_ARRAY", "SLURM_STEP", "SLURM_N", "SLURM_RESTART", "PET_", "WANDB_MODE"),
)
"""How the names of environment variables begin that bear on a run. No others are recorded."""

SECRET = ("KEY", "TOKEN", "SECRET", "PASS", "CRED")
"""What a recorded variable's name must not contain."""

PATCH = "dirty.patch"


def provenance() -> dict[str, Any]:
    """What can be said before the run starts; the ranks add data and dtypes."""
    return {
        "command": shlex.join(sys.orig_argv),
        "cwd": os.getcwd(),
        "project": str(Path(__file__).resolve().parent.parent),
        "python": platform.python_version(),
        "packages": {d.name: d.version for d in sorted(distributions(), key=lambda d: d.name)},
        "environment": environment(os.environ),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
    }


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of `VARIABLES` that are set, without any that could be a secret."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(VARIABLES) and not any(word in name for word in SECRET)
    }


def note_attempt(plan: Plan, folder: Path, attempt: int) -> None:
    """Write provenance.json for an attempt; what it says of earlier ones stays."""
    path = folder / "provenance.json"
    before = read_json(path)
    now = {**provenance(), **_note_code(folder, attempt)}
    told = {
        "attempt": attempt,
        "command": now["command"],
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": now["git"],
        "resumed": plan.config.resume,
        "changes": list(plan.changes),
    }
    earlier = [entry for entry in before.get("attempts", []) if entry["attempt"] < attempt]
    content = {
        **now,
        "cell": plan.cell,
        "seed": plan.config.seed,
        "auto": None if plan.choice is None else asdict(plan.choice),
        "forecast": None if plan.forecast is None else plan.forecast.record(),
        "run": run_identity(before.get("run"), folder),
        "attempts": [*earlier, told],
    }
    write_json(path, content)


def _note_code(folder: Path, attempt: int) -> dict[str, Any]:
    """This project's repository, and the one around the working folder if that is another.

    What differs from the commit is kept as a patch, an attempt's of its own where it differs
    from the first one's.
    """
    own = code_state(Path(__file__).parent)
    around = code_state(Path.cwd())
    if around is not None and own is not None and around.top == own.top:
        around = None
    noted: dict[str, Any] = {}
    for key, state, name in (("git", own, PATCH), ("git_cwd", around, f"cwd.{PATCH}")):
        if state is None:
            noted[key] = None
            continue
        patch = None
        if state.patch:
            patch = folder / name
            if attempt > 1 and not (patch.exists() and patch.read_bytes() == state.patch):
                patch = folder / "logs" / f"attempt-{attempt}.{name}"
            patch.write_bytes(state.patch)
        noted[key] = {
            "top": str(state.top),
            "commit": state.commit,
            "dirty": state.dirty,
            "patch": None if patch is None else str(patch.relative_to(folder)),
            "left_out": list(state.left_out),
        }
    return noted


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


def processor() -> str:
    """This machine's, as the kernel names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
