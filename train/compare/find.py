"""From the folders that a command names to the runs in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from components.errors import ConfigError
from train import status
from train.nearest import hint

NUMBERED = re.compile(r"(\d+)_")
"""How the folder of a sweep's job begins: with the job's number."""


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The folders of the runs at `paths`, each once: jobs of a sweep by number, others by name.

    Args:
        paths: a run, a sweep's folder, or any folder above them, as outputs/.

    Raises:
        ConfigError: for a path that does not exist, or holds no run.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: there is no such folder. {_nearest(path)}")
        runs = list(runs_in(path))
        if not runs:
            raise ConfigError(
                f"{path} holds no run: no folder in it has a {status.FILE}. Give a run's folder, a "
                "sweep's, or one above them, as outputs/."
            )
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def runs_in(path: Path) -> Iterator[Path]:
    """The runs at `path` or below it, in order. A run's own folder holds no further ones."""
    if (path / status.FILE).is_file():
        yield path
        return
    if path.is_dir():
        inside = [child for child in path.iterdir() if child.is_dir() and not child.is_symlink()]
        for child in sorted(inside, key=_order):
            yield from runs_in(child)


def _order(folder: Path) -> tuple[int, str]:
    number = NUMBERED.match(folder.name)
    return (int(number[1]) if number else -1, folder.name)


def _nearest(path: Path) -> str:
    absolute = path.absolute()
    there = next(parent for parent in absolute.parents if parent.is_dir())
    missing = absolute.relative_to(there).parts[0]
    names = sorted(child.name for child in there.iterdir() if child.is_dir())
    return hint(missing, names) or f"{there} is the nearest that exists, and holds {_few(names)}."


def _few(names: list[str]) -> str:
    if not names:
        return "no folder"
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
