"""The Python standard library's own sources as text: about 12 MB, without a download."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sysconfig
from functools import cached_property
from pathlib import Path
from typing import Any

from components.data.base import Data, EpochEnd, Pair
from components.data.prepared import prepare_once
from components.data.text import BYTES, bits, byte_baselines, fingerprint
from components.data.token_samples import TokenSamples, token_pair
from components.errors import ConfigError

LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
"""Folders that are not the library's own code."""

ONE_FILE_IN = 20
"""The share of files that validate: one in twenty."""


class PythonSource(Data):
    """Bytes of the running Python's library, split into training and validation by file.

    Tests, installed packages and files generated for this machine are left
    out. A file belongs to validation by a hash of its path, so always the same.

    Args:
        seq_len: bytes of an input.
        val_samples: evaluate on so many samples, evenly spaced; None takes all.
        cache_dir: holds the two concatenated files.
        vocab_size: 256 or more; models read it off the configuration.

    Raises:
        ConfigError: for a `vocab_size` under 256 or a `seq_len` or `val_samples` under 1.
    """

    def __init__(
        self,
        *,
        cache_dir: str,
        seq_len: int = 128,
        vocab_size: int = BYTES,
        val_samples: int | None = 256,
        num_workers: int = 0,
        epoch_end: EpochEnd = "drop",
        shuffle: bool = True,
    ) -> None:
        super().__init__(num_workers=num_workers, epoch_end=epoch_end, shuffle=shuffle)
        if vocab_size < BYTES:
            raise ConfigError(f"data.vocab_size={vocab_size} must be 256: the tokens are bytes.")
        if seq_len < 1 or (val_samples is not None and val_samples < 1):
            raise ConfigError(
                f"data.seq_len={seq_len} and data.val_samples={val_samples} must be at least 1."
            )
        self.seq_len = seq_len
        self.val_samples = val_samples
        self.cache_dir = Path(cache_dir)

    def prepare(self) -> None:
        prepare_once(self._directory, self._build)

    def train_set(self) -> TokenSamples:
        return TokenSamples(self._directory / "train.bin", "uint8", self.seq_len)

    def val_set(self) -> TokenSamples:
        path = self._directory / "val.bin"
        return TokenSamples(path, "uint8", self.seq_len, limit=self.val_samples)

    def example(self) -> Pair:
        return token_pair(self.seq_len)

    def record(self) -> dict[str, Any]:
        return {
            "fingerprint": self._facts["fingerprint"],
            "python": platform.python_version(),
            "files": self._facts["files"],
            "train_samples": len(self.train_set()),
            "val_samples": len(self.val_set()),
            "baselines": self.baselines(),
        }

    def derive(self, metrics: dict[str, float]) -> dict[str, float]:
        return {"bits_per_byte": bits(metrics["loss"])} if "loss" in metrics else {}

    def baselines(self) -> dict[str, float]:
        return dict(self._facts["baselines"])

    @cached_property
    def _directory(self) -> Path:
        """Named after the Python version and the list of files with their sizes."""
        root = Path(sysconfig.get_path("stdlib"))
        listing = [f"{path.relative_to(root)} {path.stat().st_size}" for path in source_files(root)]
        key = hashlib.sha256("\n".join(listing).encode()).hexdigest()[:16]
        return self.cache_dir / f"python_source-{platform.python_version()}-{key}"

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return json.loads((self._directory / "facts.json").read_text())

    def _build(self, directory: Path) -> None:
        root = Path(sysconfig.get_path("stdlib"))
        parts: dict[bool, list[bytes]] = {False: [], True: []}
        for path in source_files(root):
            parts[is_validation(path.relative_to(root).as_posix())].append(path.read_bytes())
        train, val = b"".join(parts[False]), b"".join(parts[True])
        (directory / "train.bin").write_bytes(train)
        (directory / "val.bin").write_bytes(val)
        facts = {
            "fingerprint": fingerprint(train, val),
            "files": {"train": len(parts[False]), "val": len(parts[True])},
            "baselines": byte_baselines(train, val),
        }
        (directory / "facts.json").write_text(json.dumps(facts))


def source_files(root: Path) -> list[Path]:
    """The library's `.py` files below `root`, sorted by path."""
    found = []
    for folder, subfolders, names in os.walk(root):
        # Pruned, because site-packages often lies below and is many times as large.
        subfolders[:] = [name for name in subfolders if not _left_out(name)]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(path for path in found if not path.name.startswith("_sysconfigdata"))


def is_validation(relative_path: str) -> bool:
    """Whether a file validates: the same for every run and machine."""
    digest = hashlib.sha256(relative_path.encode()).digest()
    return int.from_bytes(digest[:4], "big") % ONE_FILE_IN == 0


def _left_out(folder: str) -> bool:
    return folder in LEFT_OUT or folder.startswith("config-")
