"""metrics.jsonl of a run that goes on: each step stands there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.records import keep_records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


def texts(folder: Path) -> tuple[str, str]:
    """What stands in the records, and what was put aside."""
    aside = folder / "logs" / "superseded.jsonl"
    return (folder / "metrics.jsonl").read_text(), aside.read_text() if aside.exists() else ""


@pytest.mark.parametrize(
    ("content", "records", "moved", "kept", "aside"),
    [
        ("1\n2\n3\n", 3, 0, "1\n2\n3\n", ""),
        ("1\n2\n3\n", 2, 1, "1\n2\n", "3\n"),
        ("1\n2\n3\n", 0, 3, "", "1\n2\n3\n"),
        ("1\n2\n", 5, 0, "1\n2\n", ""),
        ("", 0, 0, "", ""),
        # What a crash tore is no record.
        ('1\n2\n{"st', 1, 2, "1\n", "2\n"),
    ],
)
def test_lines(folder: Path, content: str, records: int, moved: int, kept: str, aside: str) -> None:
    (folder / "metrics.jsonl").write_text(content)
    assert keep_records(folder, records) == moved
    assert texts(folder) == (kept, aside)


def test_no_records_yet(folder: Path) -> None:
    assert keep_records(folder, 3) == 0


def test_twice(folder: Path) -> None:
    (folder / "metrics.jsonl").write_text("1\n2\n3\n")
    keep_records(folder, 2)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("3b\n4b\n")
    keep_records(folder, 1)
    assert texts(folder) == ("1\n", "3\n2\n3b\n4b\n")
