"""manifest.json: what a checkpoint is and which files make it up. Written last, it completes it."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FILE = "manifest.json"
FORMAT = 1
OWN = "sha256"
"""The manifest's entry for the checksum of the manifest itself."""

READERS = 4
"""Files that are read at a time: hashing leaves the interpreter to others."""


class Damaged(Exception):
    """A checkpoint that is not whole, with the file at fault and what is wrong with it."""


@dataclass(frozen=True)
class Manifest:
    """A checkpoint in words.

    Attributes:
        step: optimizer steps taken, skipped ones included.
        samples: consumed, over all ranks.
        records: lines of metrics.jsonl that were written by then.
        parallel, precision, world_size: who wrote it; it can be read by any other.
        dtypes: as in summary.json.
        attempt: of the run, which wrote it.
        time: seconds since the epoch.
        config_hash: of the run's config without what may change from attempt to attempt.
        versions: of the packages that wrote it.
        tied: further names of a shared parameter, and the name under which it is saved.
        metrics: of the evaluation at this step; empty without one.
        data: the data set's fingerprint.
        files: name to `bytes` and `sha256`.
    """

    step: int
    samples: int
    records: int
    parallel: str
    precision: str
    world_size: int
    dtypes: dict[str, str]
    attempt: int
    time: float
    config_hash: str
    versions: dict[str, str | None]
    tied: dict[str, str]
    metrics: dict[str, float]
    data: str | None
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    format: int = FORMAT


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it to the disk itself."""
    path = folder / FILE
    content = asdict(manifest)
    with path.open("w") as file:
        file.write(json.dumps({**content, OWN: _checksum(content)}, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _checksum(content: dict[str, Any]) -> str:
    """SHA-256 of the other entries, in hexadecimal: what tells of a change in this file itself."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """What `folder` says it holds.

    Raises:
        Damaged: when there is no manifest, or none of this format, or one that has changed.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_text())
        if content.get("format") != FORMAT:
            raise Damaged(
                f"{path} has format {content.get('format')}, and this version reads {FORMAT}"
            )
        if content.pop(OWN, None) != _checksum(content):
            raise Damaged(f"{path} has changed since it was written (its SHA-256 differs)")
        return Manifest(**content)
    except FileNotFoundError:
        raise Damaged(f"{path} is missing: the checkpoint was never completed") from None
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"{path} cannot be read ({error})") from error


def digest(path: Path) -> dict[str, Any]:
    """A file's size and SHA-256."""
    with path.open("rb") as file:
        sha = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": sha}


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Whether every file is there in its size.

    Raises:
        Damaged: naming the first that is not.
    """
    for name, entry in manifest.files.items():
        path = folder / name
        if not path.exists():
            raise Damaged(f"{path} is missing")
        if path.stat().st_size != entry["bytes"]:
            raise Damaged(f"{path} has {path.stat().st_size} bytes instead of {entry['bytes']}")


def verify(folder: Path) -> Manifest:
    """Read every file of a checkpoint and hold it against the manifest, which is returned.

    Raises:
        Damaged: naming the first file that is missing, cut short or changed.
    """
    manifest = read_manifest(folder)
    check_sizes(folder, manifest)

    def check(name: str) -> None:
        try:
            found = digest(folder / name)
        except OSError as error:
            raise Damaged(f"{folder / name} cannot be read ({error.strerror})") from error
        if found != manifest.files[name]:
            raise Damaged(f"{folder / name} has changed since it was written (its SHA-256 differs)")

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(check, manifest.files))
    return manifest
