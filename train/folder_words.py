"""Words that were read in a run's or a sweep's folder, which may be somebody else's.

Such words choose and change components, and `allowed_targets.py` looks at what those name. Here is
seen to the rest: flags, and settings of Hydra's own, by which code could be named too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from components.errors import ConfigError
from train.merge import key_of

OF_SWEEPS = (
    *("hydra.launcher", "hydra/launcher", "hydra.sweeper", "hydra/sweeper"),
    *("hydra.sweep", "hydra.run", "hydra.mode"),
)
"""Settings of Hydra's that a sweep's own words may have. A run's are kept elsewhere."""

OF_SWEEPS_FLAGS = ("--multirun", "--config-name", "--config-path", "--config-dir")


def check_words(words: Iterable[str], folder: Path, key: str, sweep: bool = False) -> None:
    """Refuse words that nobody who starts a run has to have.

    Args:
        words: as they stand in the folder.
        key: what names it, as `resume`.
        sweep: whether they are those of a sweep.

    Raises:
        ConfigError: for the first, with the cure.
    """
    for word in words:
        if _needed(word, sweep):
            continue
        raise ConfigError(
            f"{key}={folder}: it says {word!r}, which could run anything, and which this project "
            "does not write there. Take it out if you trust the folder, and give it yourself."
        )


def check_config_folder(path: str, folder: Path, key: str) -> None:
    """Refuse configs inside the folder itself: they could say what its words may not.

    Raises:
        ConfigError: naming both.
    """
    if Path(path).resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"{key}={folder}: it names configs inside itself ({path}), which could run anything. "
            "Give --config-dir yourself if you trust them."
        )


def _needed(word: str, sweep: bool) -> bool:
    if word.startswith("-"):
        return sweep and word.partition("=")[0] in OF_SWEEPS_FLAGS
    key = key_of(word)
    if key != "hydra" and not key.startswith(("hydra.", "hydra/")):
        return True
    known = any(key == one or key.startswith((f"{one}.", f"{one}/")) for one in OF_SWEEPS)
    return sweep and known and "_target_" not in word
