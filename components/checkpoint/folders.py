"""The checkpoints of a run's folder: named by step, whole or not there, the newest kept.

One that is being written has a name that no reader looks at. It gets its own in one move,
once it is complete and on the disk.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from components.checkpoint.manifest import FILE, Damaged, Manifest, check_sizes, read_manifest

PLACE = "checkpoints"
PARTIAL = ".partial"
GOING = ".removed"
ASIDE = ".superseded"
CONFIG = "config.yaml"
"""The run's config, in each of its checkpoints."""

NAME = re.compile(r"step-(\d+)")


def place_of(folder: Path, step: int) -> Path:
    """The folder of a run's checkpoint at `step`."""
    return folder / PLACE / f"step-{step:06d}"


def begin(folder: Path, step: int) -> Path:
    """An empty folder in which to write the checkpoint at `step`."""
    partial = place_of(folder, step).with_suffix(PARTIAL)
    discard(partial)
    partial.mkdir(parents=True)
    return partial


def commit(partial: Path) -> Path:
    """Give a complete checkpoint its name; one that had it before makes room."""
    final = partial.with_suffix("")
    sync(partial)
    before = final.with_suffix(GOING)
    if final.exists():
        discard(before)
        os.rename(final, before)
    os.rename(partial, final)
    sync(final.parent)
    discard(before)
    return final


def remove(checkpoint: Path) -> None:
    """Delete a checkpoint: first it stops being one."""
    going = checkpoint.with_suffix(GOING)
    discard(going)
    os.rename(checkpoint, going)
    discard(going)


def discard(remains: Path) -> None:
    """Delete what is no checkpoint, or no longer, as far as that is possible."""
    shutil.rmtree(remains, ignore_errors=True)


def clean(folder: Path) -> None:
    """Delete what an interrupted write or removal left behind."""
    for suffix in (PARTIAL, GOING):
        for left in (folder / PLACE).glob(f"*{suffix}"):
            discard(left)


def put_aside_after(folder: Path, step: int) -> list[Path]:
    """Let no checkpoint beyond `step` be one any more: the run goes on from there another way."""
    later = [path for path in found(folder) if (step_of(path) or 0) > step]
    for checkpoint in later:
        aside = checkpoint.with_suffix(ASIDE)
        discard(aside)
        os.rename(checkpoint, aside)
    return later


def sync(folder: Path) -> None:
    """Bring a folder's own entries to the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def step_of(checkpoint: Path) -> int | None:
    """The step in a checkpoint's name; None for a folder that is none."""
    match = NAME.fullmatch(checkpoint.name)
    return int(match.group(1)) if match else None


def found(folder: Path) -> list[Path]:
    """A run's folders that are named as checkpoints, the newest first; whether whole or not."""
    steps = {step_of(path): path for path in (folder / PLACE).glob("step-*")}
    return [steps[step] for step in sorted((s for s in steps if s is not None), reverse=True)]


def complete(folder: Path) -> list[tuple[Path, Manifest]]:
    """A run's checkpoints of which every file is there in its size, the newest first."""
    whole = []
    for checkpoint in found(folder):
        try:
            manifest = read_manifest(checkpoint)
            check_sizes(checkpoint, manifest)
        except Damaged:
            continue
        whole.append((checkpoint, manifest))
    return whole


def is_checkpoint(path: Path) -> bool:
    """Whether a folder is one of a run's checkpoints, rather than a run."""
    return (step_of(path) is not None and path.parent.name == PLACE) or (path / FILE).exists()


def keep(folder: Path, last: int, best: Sequence[int]) -> None:
    """Delete all but the newest `last` checkpoints and those of the steps in `best`."""
    whole = complete(folder)
    kept = {checkpoint for checkpoint, _ in whole[:last]}
    for checkpoint, manifest in whole:
        if checkpoint not in kept and manifest.step not in best:
            remove(checkpoint)
