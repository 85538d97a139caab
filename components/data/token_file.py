"""Files of token ids: what they are, and the facts about one that are worth counting once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.data.text import unigram_bits
from components.data.token_samples import open_tokens
from components.errors import ConfigError

BLOCK = 1 << 24
"""Tokens counted at a time."""


def holds_tokens(path: Path) -> bool:
    """Whether a file holds token ids (`.bin`, `.npy`), not text."""
    return path.suffix in (".bin", ".npy")


def check_array(key: str, path: Path, dtype: str) -> None:
    """Refuse a file that cannot be an array of tokens.

    Raises:
        ConfigError: naming `data.<key>`.
    """
    try:
        tokens = open_tokens(path, dtype)
    except ValueError as error:
        raise ConfigError(
            f"data.{key}={path} is not an array of tokens: {error}. A .bin file holds "
            "data.dtype (uint16 or uint32) and nothing else; a .npy file what NumPy saved."
        ) from error
    if tokens.ndim != 1 or tokens.dtype not in (np.uint8, np.uint16, np.uint32):
        raise ConfigError(
            f"data.{key}={path} holds {tokens.dtype} of shape {tokens.shape}. "
            "Tokens are uint8, uint16 or uint32 in one dimension."
        )


def check_ids(path: Path, highest: int, vocab_size: int) -> None:
    """Refuse token ids that a model's vocabulary does not have.

    Raises:
        ConfigError: with the id and the vocabulary's size.
    """
    if highest >= vocab_size:
        raise ConfigError(
            f"data.path={path}: token id {highest} found, which data.vocab_size={vocab_size} "
            "does not cover. "
            f"Take data.vocab_size={highest + 1} or more."
        )


def token_file_facts(
    path: Path, val_path: Path | None, val_fraction: float, dtype: str, vocab_size: int
) -> dict[str, Any]:
    """The training and validation parts, each with its highest id, and the unigram baseline.

    A part is `file`, `dtype`, `start` and `stop` (in tokens) and `highest`.

    Raises:
        ConfigError: for an id that `vocab_size` does not cover.
    """
    files = [path, val_path] if val_path else [path]
    # Before counting: the counts of ids read with a wrong dtype could fill the memory.
    check_ids(path, max(map(_highest, (open_tokens(p, dtype) for p in files))), vocab_size)
    size = len(open_tokens(path, dtype))
    cut = size if val_path else size - int(size * val_fraction)
    train, train_counts = _part(path, dtype, 0, cut)
    facts = {"train": train, "val": None, "bytes_per_token": None, "baselines": {}}
    if val_path is None and cut == size:
        return facts
    if val_path:
        val, val_counts = _part(val_path, dtype, 0, len(open_tokens(val_path, dtype)))
    else:
        val, val_counts = _part(path, dtype, cut, size)
    kinds = max(len(train_counts), len(val_counts))
    train_counts, val_counts = (
        np.pad(counts, (0, kinds - len(counts))) for counts in (train_counts, val_counts)
    )
    baselines = {"unigram_bits_per_token": unigram_bits(train_counts, val_counts)}
    return facts | {"val": val, "baselines": baselines}


def _highest(tokens: NDArray[Any]) -> int:
    return max(int(tokens[i : i + BLOCK].max()) for i in range(0, len(tokens), BLOCK))


def _part(
    path: Path, dtype: str, start: int, stop: int
) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """One part, and how often each id occurs in it."""
    tokens = open_tokens(path, dtype)
    counts = np.zeros(1, np.int64)
    for first in range(start, stop, BLOCK):
        block = tokens[first : min(first + BLOCK, stop)]
        more = np.bincount(block, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    part = {"file": str(path.resolve()), "dtype": dtype, "start": start, "stop": stop}
    return part | {"highest": len(counts) - 1}, counts
