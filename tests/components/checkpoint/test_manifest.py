"""A checkpoint says what it is made of, and any difference is found and named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from components.checkpoint import folders
from components.checkpoint.manifest import Damaged, digest, read_manifest, verify
from tests.components.checkpoint.made import saved

FILES = [".metadata", "__0_0.distcp", "config.yaml", "rank-0.pt", "training.pt"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("run"))


@pytest.fixture
def checkpoint(written: Path, tmp_path: Path) -> Path:
    """One to be damaged."""
    shutil.copytree(written, tmp_path / "checkpoints" / written.name)
    return tmp_path / "checkpoints" / written.name


def test_it_lists_every_other_file(checkpoint: Path, tmp_path: Path) -> None:
    assert checkpoint == tmp_path / "checkpoints" / "step-000004"
    found = verify(checkpoint)
    assert list(found.files) == FILES
    assert {path.name for path in checkpoint.iterdir()} == {*FILES, "manifest.json"}
    assert (found.step, found.samples, found.records) == (4, 32, 4)


def test_the_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "abc").write_text("abc")
    sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
    assert digest(tmp_path / "abc") == {"bytes": 3, "sha256": sha}


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _replace(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("damage", [_truncate, _flip, Path.unlink, _replace])
def test_damage_is_found_and_the_file_named(
    checkpoint: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(checkpoint / name)
    with pytest.raises(Damaged, match=str(checkpoint / name).replace(".", r"\.")):
        verify(checkpoint)


def test_every_bit_of_the_manifest_counts(checkpoint: Path) -> None:
    """Whatever bit flips, the checkpoint says no other thing of itself than it did."""
    before, path = read_manifest(checkpoint), checkpoint / "manifest.json"
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 4):
            path.write_bytes(bytes([*whole[:place], whole[place] ^ 1 << bit, *whole[place + 1 :]]))
            try:
                assert read_manifest(checkpoint) == before  # a blank that became another
            except Damaged:
                continue


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 1}', '{"format": 2}'])
def test_a_manifest_of_another_kind(checkpoint: Path, content: str) -> None:
    (checkpoint / "manifest.json").write_text(content)
    with pytest.raises(Damaged, match=r"manifest\.json"):
        verify(checkpoint)


def test_another_format_is_said(checkpoint: Path) -> None:
    path = checkpoint / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 7}))
    with pytest.raises(Damaged, match="has format 7, and this version reads 1"):
        verify(checkpoint)


def test_an_unlisted_file_is_no_damage(checkpoint: Path) -> None:
    (checkpoint / "note.txt").write_text("the good one")
    verify(checkpoint)


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    path = folders.place_of(tmp_path, 4)
    path.parent.mkdir()
    path.write_text("")
    with pytest.raises(Damaged, match="Not a directory"):
        verify(path)
    assert folders.complete(tmp_path) == []


def test_what_json_cannot_hold_exactly_is_the_same_after(tmp_path: Path) -> None:
    metrics = {"val/loss": 0.1 + 0.2, "val/far": 1e300, "val/none": float("inf")}
    checkpoint = saved(tmp_path, metrics=metrics)
    assert read_manifest(checkpoint).metrics == metrics
