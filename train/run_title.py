"""What a run is called where others see it, and the sweep that it belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from omegaconf import ListConfig, OmegaConf

from train.config_tree import as_written
from train.files import read_json

TIME = re.compile(r"^\d\d-\d\d-\d\d(-\d+)?_")
"""What a folder's name begins with."""

BARE = ("parallel", "precision")
"""Keys whose value says enough alone."""


def sweep_of(folder: Path) -> str | None:
    """The name of the sweep whose folder a run's folder is in; None outside a sweep."""
    parent = folder.absolute().parent
    return parent.name if (parent / "multirun.yaml").exists() else None


def title(folder: Path) -> str:
    """A run's name for readers.

    In a sweep the overrides that not all its jobs share, as in `fsdp bf16 lr=0.01`; outside one
    the folder's name without the time, which stays the same when a run goes on with others.
    """
    path, name = folder / ".hydra" / "overrides.yaml", folder.absolute().name
    if sweep_of(folder) is None or not path.is_file():
        return TIME.sub("", name)
    loaded = OmegaConf.load(path)
    assert isinstance(loaded, ListConfig)
    overrides = as_written(loaded)
    shared = read_json(folder.absolute().parent / "sweep.json").get("shared", [])
    return " ".join(_word(text) for text in overrides if text not in shared) or name


def _word(override: str) -> str:
    key, _, value = override.lstrip("+").partition("=")
    return value if key in BARE else f"{key.rpartition('.')[2]}={value}"
