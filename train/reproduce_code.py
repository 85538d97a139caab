"""The code that a run was made with, checked out beside the repository it comes from."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.cluster.signals import HEEDED, held
from components.errors import ConfigError

NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
"""What a user's hook does after a checkout must not happen here."""


@dataclass(frozen=True)
class Tree:
    """A recorded state of a repository, checked out.

    Attributes:
        top: where these files lay when the run was made.
        place: where they lie now.
        lacks: what of that state could not be had, in words.
    """

    top: Path
    place: Path
    lacks: tuple[str, ...] = ()


def moved(path: Path, trees: Sequence[Tree]) -> Path:
    """Where a file or folder of the run's time lies in `trees`; itself when in none of them."""
    resolved = path.resolve()
    for tree in sorted(trees, key=lambda tree: len(tree.top.parts), reverse=True):
        if resolved.is_relative_to(tree.top):
            there = tree.place / resolved.relative_to(tree.top)
            return there if there.exists() else path
    return path


@contextmanager
def checked_out(folder: Path, noted: dict[str, Any], otherwise: Path) -> Iterator[Tree]:
    """A worktree of the recorded commit with the recorded patch, which is gone afterwards.

    The repository's own checkout and index stay as they are.

    Args:
        folder: the run's.
        noted: what its provenance.json says of one repository.
        otherwise: a folder of the repository to ask when the recorded one is no longer there.

    Raises:
        ConfigError: when the commit or the patch cannot be had.
    """
    commit, top = str(noted["commit"]), Path(noted.get("top") or otherwise)
    repository = _repository_with(commit, (top, otherwise))
    patch = _patch(folder, noted)
    place = Path(tempfile.mkdtemp(prefix="reproduce-"))
    try:
        # The path's last part, unique, is the name of git's own entry too.
        _git(repository, "worktree", "add", "--detach", "--quiet", str(place), commit)
        if patch is not None:
            _apply(place, patch)
        yield Tree(_top(top), place.resolve(), _lacks(noted))
    finally:
        with held(*HEEDED):
            _remove(repository, place)


def _top(path: Path) -> Path:
    """The repository's folder around `path`; itself when it is gone."""
    try:
        return Path(os.fsdecode(_git(path, "rev-parse", "--show-toplevel")).strip())
    except (OSError, subprocess.CalledProcessError):
        return path


def _repository_with(commit: str, folders: Sequence[Path]) -> Path:
    if shutil.which("git") is None:
        raise ConfigError(
            "git is not on this machine's PATH, and the run's code is a commit. Install git."
        )
    for folder in folders:
        try:
            _git(folder, "cat-file", "-e", f"{commit}^{{commit}}")
        except (OSError, subprocess.CalledProcessError):
            continue
        return folder
    asked = " and ".join(dict.fromkeys(map(str, folders)))
    raise ConfigError(
        f"the run was made with commit {commit}, and {asked} does not have it: it was never "
        "fetched, or was rewritten and cleaned away. Fetch it (git fetch <remote> "
        f"{commit}), or run this from a clone that has it."
    )


def _patch(folder: Path, noted: dict[str, Any]) -> Path | None:
    if noted.get("patch") is None:
        return None
    path = (folder / noted["patch"]).absolute()
    if not path.is_file():
        raise ConfigError(
            f"{path} is missing: the run's code differed from commit {noted['commit']} by it. "
            "Put it back from a copy of the run's folder."
        )
    return path


def _apply(place: Path, patch: Path) -> None:
    try:
        _git(place, "apply", "--whitespace=nowarn", str(patch))
    except subprocess.CalledProcessError as error:
        said = os.fsdecode(error.stderr).strip().splitlines()
        raise ConfigError(
            f"{patch} does not apply to the commit that it was made from "
            f"({said[0] if said else 'git gives no reason'}): it was changed since. Put it back "
            "from a copy of the run's folder."
        ) from error


def _lacks(noted: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{name} was too large to be recorded: the code is reproduced without it"
        for name in noted.get("left_out", ())
    )


def _remove(repository: Path, place: Path) -> None:
    """Take the worktree away, also one whose making was cut short."""
    subprocess.run(
        ["git", "-C", str(repository), "worktree", "remove", "--force", "--force", str(place)],
        capture_output=True,
        check=False,
    )
    shutil.rmtree(place, ignore_errors=True)
    common = _git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir")
    shutil.rmtree(Path(os.fsdecode(common).strip()) / "worktrees" / place.name, ignore_errors=True)


def _git(folder: Path, *words: str) -> bytes:
    return subprocess.run(
        ["git", *NO_HOOKS, "-C", str(folder), *words], capture_output=True, check=True
    ).stdout
