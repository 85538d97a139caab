"""The checkpoint that a run goes on from: the newest that is whole, every byte of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.checkpoint import folders
from components.checkpoint.manifest import Damaged, verify


@dataclass(frozen=True)
class Found:
    """Where a run can go on.

    Attributes:
        checkpoint: None when there is none: from the start.
        step: steps that it has taken.
        records: lines of metrics.jsonl that had been written by then.
        skipped: what was wrong with newer ones.
    """

    checkpoint: Path | None = None
    step: int = 0
    records: int = 0
    skipped: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """As in `resuming from step 200`."""
        return f"resuming from step {self.step}" if self.checkpoint else "starting from step 0"


def newest(folder: Path) -> Found:
    """The newest whole checkpoint of a run."""
    skipped: list[str] = []
    for checkpoint in folders.found(folder):
        try:
            return whole(checkpoint, tuple(skipped))
        except Damaged as damage:
            skipped.append(str(damage))
    return Found(skipped=tuple(skipped))


def whole(checkpoint: Path, skipped: tuple[str, ...] = ()) -> Found:
    """One checkpoint, read and held against its checksums.

    Raises:
        Damaged: naming the file at fault, or a folder that was given another's name.
    """
    manifest = verify(checkpoint)
    if manifest.step != folders.step_of(checkpoint):
        raise Damaged(f"{checkpoint} holds step {manifest.step}: it does not bear its own name")
    return Found(checkpoint.absolute(), manifest.step, manifest.records, skipped)
