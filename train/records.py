"""metrics.jsonl of a run that goes on: what came after its checkpoint is put aside."""

from __future__ import annotations

from pathlib import Path

from train.files import write_text

FILE = "metrics.jsonl"
SUPERSEDED = Path("logs") / "superseded.jsonl"


def keep_records(folder: Path, records: int) -> int:
    """Keep the first `records` lines; the others move to `logs/superseded.jsonl`. How many.

    The steps that they tell of are taken again, and each step is to stand there once.
    """
    path = folder / FILE
    if not path.exists():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    kept, rest = lines[:records], lines[records:]
    if not rest:
        return 0
    with (folder / SUPERSEDED).open("ab") as file:
        file.writelines(line for line in rest if line.endswith(b"\n"))
    write_text(path, b"".join(kept).decode())
    return len(rest)
