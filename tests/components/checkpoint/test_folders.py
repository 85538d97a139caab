"""Checkpoints by name: whole or not there, the newest and the best kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checkpoint import folders
from components.checkpoint.manifest import write_manifest
from tests.components.checkpoint.made import manifest


def made(folder: Path, *steps: int) -> None:
    """Checkpoints of a manifest alone."""
    for step in steps:
        partial = folders.begin(folder, step)
        write_manifest(partial, manifest(step))
        folders.commit(partial)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_a_name_for_each_step() -> None:
    assert folders.place_of(Path("run"), 200) == Path("run/checkpoints/step-000200")
    assert folders.place_of(Path("run"), 12_345_678) == Path("run/checkpoints/step-12345678")
    assert folders.step_of(Path("run/checkpoints/step-12345678")) == 12_345_678
    for other in ("step-4.partial", "step-000004.removed", "step-", "step-x", "astep-4", "best"):
        assert folders.step_of(Path(other)) is None


def test_the_newest_first_by_number(tmp_path: Path) -> None:
    made(tmp_path, 999_999, 2, 1_000_000)
    assert [path.name for path in folders.found(tmp_path)] == [
        "step-1000000",
        "step-999999",
        "step-000002",
    ]
    assert [manifest.step for _, manifest in folders.complete(tmp_path)] == [1_000_000, 999_999, 2]


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    assert folders.found(tmp_path) == []
    folders.clean(tmp_path)
    folders.keep(tmp_path, 1, [])
    assert folders.put_aside_after(tmp_path, 0) == []


def test_what_is_being_written_is_none(tmp_path: Path) -> None:
    made(tmp_path, 2)
    partial = folders.begin(tmp_path, 4)
    write_manifest(partial, manifest(4))
    assert [path.name for path in folders.found(tmp_path)] == ["step-000002"]
    folders.clean(tmp_path)
    assert names(tmp_path) == ["step-000002"]


def test_begun_again_it_is_empty(tmp_path: Path) -> None:
    (folders.begin(tmp_path, 4) / "half.pt").write_bytes(b"x")
    assert list(folders.begin(tmp_path, 4).iterdir()) == []


def test_over_an_existing_one(tmp_path: Path) -> None:
    made(tmp_path, 4)
    partial = folders.begin(tmp_path, 4)
    write_manifest(partial, manifest(4, attempt=2))
    folders.commit(partial)
    assert names(tmp_path) == ["step-000004"]
    ((_, found),) = folders.complete(tmp_path)
    assert found.attempt == 2


def test_a_removal_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    made(tmp_path, 2, 4)
    folders.place_of(tmp_path, 2).rename(tmp_path / "checkpoints" / "step-000002.removed")
    assert [path.name for path in folders.found(tmp_path)] == ["step-000004"]
    folders.clean(tmp_path)
    assert names(tmp_path) == ["step-000004"]


@pytest.mark.parametrize(
    ("last", "best", "left"),
    [
        (1, [], [8]),
        (2, [], [6, 8]),
        (9, [], [2, 4, 6, 8]),
        (1, [2], [2, 8]),
        (1, [2, 8], [2, 8]),
        (1, [3], [8]),
    ],
)
def test_the_newest_and_the_best_are_kept(
    tmp_path: Path, last: int, best: list[int], left: list[int]
) -> None:
    made(tmp_path, 2, 4, 6, 8)
    folders.keep(tmp_path, last, best)
    assert names(tmp_path) == [f"step-{step:06d}" for step in left]


def test_a_damaged_one_is_not_counted_and_not_touched(tmp_path: Path) -> None:
    """With the newest damaged, the one before is the last that can be resumed."""
    made(tmp_path, 2, 4, 6)
    (folders.place_of(tmp_path, 6) / "manifest.json").write_text("{")
    folders.keep(tmp_path, 1, [])
    assert names(tmp_path) == ["step-000004", "step-000006"]


def test_later_ones_are_put_aside(tmp_path: Path) -> None:
    made(tmp_path, 2, 4, 6, 8)
    later = folders.put_aside_after(tmp_path, 4)
    assert [path.name for path in later] == ["step-000008", "step-000006"]
    assert [path.name for path in folders.found(tmp_path)] == ["step-000004", "step-000002"]
    # Once more, over what was put aside before; and it is no litter.
    made(tmp_path, 6)
    folders.put_aside_after(tmp_path, 4)
    folders.clean(tmp_path)
    assert names(tmp_path)[2:] == ["step-000006.superseded", "step-000008.superseded"]
    folders.put_aside_after(tmp_path, 0)
    assert folders.found(tmp_path) == []
