"""Which code a run was made with: the commit, and what differs from it, untracked files too."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

LARGEST_FILE = 1_000_000
"""Bytes of an untracked file above which it is named but not kept: it is data, not code."""

LARGEST_PATCH = 20_000_000
"""Bytes of a patch above which it is left out."""

TIMEOUT_S = 20


@dataclass(frozen=True)
class CodeState:
    """A git repository as it stands.

    Attributes:
        top: its folder.
        commit: the checked-out one.
        patch: what `git apply` needs to go from there to the files as they are; empty if nothing.
        left_out: files, or the whole patch, that were too large for it.
    """

    top: Path
    commit: str
    patch: bytes
    left_out: tuple[str, ...] = ()

    @property
    def dirty(self) -> bool:
        """Whether the files differ from the commit."""
        return bool(self.patch or self.left_out)


def code_state(directory: Path) -> CodeState | None:
    """The repository around `directory`; None outside one, or without git.

    Neither its index nor its objects are touched: a copy of the index and a folder for new
    objects take what has to be added to make a diff.
    """
    try:
        top = Path(_git(directory, "rev-parse", "--show-toplevel").decode().strip())
        commit = _git(top, "rev-parse", "HEAD").decode().strip()
        with tempfile.TemporaryDirectory() as scratch:
            return _state(top, commit, Path(scratch))
    except (OSError, subprocess.SubprocessError):
        return None


def _state(top: Path, commit: str, scratch: Path) -> CodeState:
    listed = _git(top, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    untracked = [os.fsdecode(name) for name in listed if name]
    large = [name for name in untracked if _bytes(top / name) > LARGEST_FILE]
    small = [name for name in untracked if name not in large]

    git_dir = Path(_git(top, "rev-parse", "--absolute-git-dir").decode().strip())
    objects = _git(top, "rev-parse", "--git-path", "objects").decode().strip()
    aside = {
        "GIT_INDEX_FILE": str(scratch / "index"),
        "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(top / objects),
    }
    (scratch / "objects").mkdir()
    if (git_dir / "index").exists():
        shutil.copyfile(git_dir / "index", scratch / "index")
    _git(top, "add", "--update", environ=aside)
    if small:
        names = b"\0".join(os.fsencode(name) for name in small)
        _git(
            top, "add", "--pathspec-from-file=-", "--pathspec-file-nul", environ=aside, given=names
        )
    patch = _git(top, "diff", "--cached", "--binary", "HEAD", environ=aside)
    if len(patch) > LARGEST_PATCH:
        return CodeState(top, commit, b"", (*large, f"the patch, of {len(patch):,} bytes"))
    return CodeState(top, commit, patch, tuple(large))


def _bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _git(
    directory: Path, *words: str, environ: dict[str, str] | None = None, given: bytes = b""
) -> bytes:
    return subprocess.run(
        ["git", "-C", str(directory), *words],
        input=given,
        capture_output=True,
        check=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **(environ or {}), "GIT_LITERAL_PATHSPECS": "1"},
    ).stdout
