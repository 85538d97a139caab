"""The commit and what differs from it, without a trace in the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from train import code_state
from train.code_state import code_state as state_of


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], input=given, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "kept.py").write_text("a = 1\n")
    (folder / "gone.py").write_text("b = 2\n")
    (folder / ".gitignore").write_text("outputs/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def test_a_clean_tree(repository: Path) -> None:
    state = state_of(repository)
    assert state is not None
    assert state.commit == git(repository, "rev-parse", "HEAD")
    assert not state.dirty
    assert state.patch == b""


def test_outside_a_repository(tmp_path: Path) -> None:
    assert state_of(tmp_path) is None


def test_the_patch_makes_the_tree_again(repository: Path, tmp_path: Path) -> None:
    """Changed, staged, removed, untracked, binary and oddly named files; from a folder below."""
    (repository / "kept.py").write_text("a = 3\n")
    (repository / "gone.py").unlink()
    (repository / "pack").mkdir()
    (repository / "pack" / "new [1].py").write_text("c = 4\n")
    (repository / "pack" / "table.bin").write_bytes(bytes(range(256)))
    (repository / "staged.py").write_text("d = 5\n")
    git(repository, "add", "staged.py")
    (repository / "outputs").mkdir()
    (repository / "outputs" / "run.txt").write_text("not code")
    before = git(repository, "status", "--porcelain"), objects(repository)

    state = state_of(repository / "pack")
    assert state is not None
    assert state.dirty
    assert (git(repository, "status", "--porcelain"), objects(repository)) == before

    again = tmp_path / "again"
    git(tmp_path, "clone", "-q", str(repository), str(again))
    git(again, "apply", "-", given=state.patch)
    assert files(again) == {k: v for k, v in files(repository).items() if "outputs" not in k}


def objects(repository: Path) -> int:
    return sum(1 for path in (repository / ".git" / "objects").rglob("*") if path.is_file())


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def test_what_is_too_large_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "data.bin").write_bytes(bytes(code_state.LARGEST_FILE + 1))
    (repository / "small.py").write_text("e = 6\n")
    state = state_of(repository)
    assert state is not None
    assert state.left_out == ("data.bin",)
    assert b"small.py" in state.patch
    assert b"data.bin" not in state.patch

    monkeypatch.setattr(code_state, "LARGEST_PATCH", 10)
    state = state_of(repository)
    assert state is not None
    assert state.patch == b""
    assert state.left_out[0] == "data.bin"
    assert "the patch, of" in state.left_out[1]
    assert state.dirty
