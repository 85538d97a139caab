"""What an export reads: the weights of a run's newest whole checkpoint, of one, or its last."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from components.checkpoint import folders
from components.checkpoint.manifest import Damaged, verify
from components.checkpoint.sources import CheckpointSource, FileSource, Source
from components.checkpoint.weights import FILE
from components.errors import ConfigError
from train import status
from train.newest import newest

PLACE = "export"


@dataclass(frozen=True)
class Origin:
    """Weights to export.

    Attributes:
        source: where they are read from.
        config: the run's, which lies beside them; None where it does not.
        step: steps taken by then; None where that is not known.
        place: the folder where an export lands unless another is named.
    """

    source: Source
    config: DictConfig | None
    step: int | None
    place: Path


def origin_of(path: Path) -> Origin:
    """The weights of a run's folder, or of a checkpoint, wherever that has been copied.

    Raises:
        ConfigError: when there are none, or none that is whole.
    """
    if not path.is_dir():
        kind = "is a file" if path.exists() else "does not exist"
        raise ConfigError(f"{path} {kind}. Give a run's folder, or a checkpoint's.")
    if folders.is_checkpoint(path):
        try:
            # Not held against its name: who took it out of its run may have given it another.
            return _checkpoint(path.absolute(), verify(path).step)
        except Damaged as error:
            raise ConfigError(f"{path} is damaged: {error}. Take another checkpoint.") from error
    found = newest(path)
    for damage in found.skipped:
        print(f"skipped a damaged checkpoint: {damage}", file=sys.stderr)
    if found.checkpoint is not None:
        return _checkpoint(found.checkpoint, found.step)
    if (path / FILE).exists():
        steps = status.read(path).get("steps")
        return Origin(FileSource(path / FILE), _config(path), steps, path / PLACE / "final")
    if found.skipped:
        raise ConfigError(f"{path} has no whole checkpoint.")
    inside = len(list(path.glob(f"*/{status.FILE}")))
    raise ConfigError(
        f"{path} holds a sweep's runs: name one of the {inside}."
        if inside
        else f"{path} has no checkpoint and no {FILE}. Give a run's folder, or a checkpoint's."
    )


def _checkpoint(path: Path, step: int) -> Origin:
    beside = path.parent.parent if path.parent.name == folders.PLACE else path.parent
    return Origin(CheckpointSource(path), _config(path), step, beside / PLACE / path.name)


def _config(folder: Path) -> DictConfig | None:
    path = folder / folders.CONFIG
    if not path.exists():
        return None
    loaded = OmegaConf.load(path)
    assert isinstance(loaded, DictConfig)
    return loaded
