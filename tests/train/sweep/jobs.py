"""Jobs of a sweep without a command line, and runs without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from train import status
from train.command_line import Job


def job(number: int, folder: str = "", **config: Any) -> Job:
    """The job with this number and config."""
    overrides = [f"{key}={value}" for key, value in config.items()]
    made = OmegaConf.create(config)
    return Job(overrides, made, Path(folder or f"{number}_job"), made, number)


def ended(folder: Path, end: status.State, cause: str = "") -> None:
    """A run in `folder` that has come to this end."""
    status.claim(folder)
    status.finish(folder, end, {"cause": cause} if cause else None, attempt=1)
