"""A small checkpoint, written by one process as a run would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from components.checkpoint.manifest import Manifest
from components.checkpoint.snapshot import Snapshot, save
from components.cluster.control import Control
from components.parallel.shard import Shard
from tests.gang import alone


def manifest(step: int = 4, **fields: Any) -> Manifest:
    """One with plain values."""
    values: dict[str, Any] = {
        "samples": 8 * step,
        "records": step,
        "parallel": "single",
        "precision": "fp32",
        "world_size": 1,
        "dtypes": {"param": "float32"},
        "attempt": 1,
        "time": 1.5,
        "config_hash": "0f",
        "versions": {"torch": "2"},
        "tied": {},
        "metrics": {},
        "data": None,
    }
    return Manifest(step=step, **{**values, **fields})


def snapshot(step: int = 4, **fields: Any) -> Snapshot:
    """A matrix and its momentum, 0 to 5 and 10 to 15."""
    weight = torch.arange(6.0).view(2, 3)
    return Snapshot(
        weights={"weight": Shard.whole(weight)},
        optimizer={"weight": {"exp_avg": Shard.whole(weight + 10)}},
        scalars={"weight": {"step": torch.tensor(float(step))}},
        training={"loop": {"step": step, "evaluations": [3.0]}},
        own={"random": {"torch": torch.zeros(2, dtype=torch.uint8)}},
        config="steps: 8\n",
        manifest=manifest(step, **fields),
    )


def control() -> Control:
    """That of a run of one process."""
    return Control(alone(), 10.0)


def saved(
    folder: Path, step: int = 4, may_commit: Callable[[], None] = lambda: None, **fields: Any
) -> Path:
    """Write a checkpoint at `step` into a run's folder."""
    return save(folder, snapshot(step, **fields), control(), may_commit)
