"""Text as bytes: fingerprints, and what trivial predictors reach on it."""

from __future__ import annotations

import hashlib
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BYTES = 256
"""The vocabulary of byte-level text."""


def fingerprint(*parts: bytes | Path) -> str:
    """`sha256:...` over bytes and files' contents, in order."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            with part.open("rb") as file:
                while block := file.read(1 << 24):
                    digest.update(block)
        else:
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def unigram_bits(train_counts: NDArray[np.int64], val_counts: NDArray[np.int64]) -> float:
    """Bits per token when each is predicted by its frequency in training, one added to each count.

    The cross-entropy -sum_v q(v) log2 p(v), with q the validation frequencies.
    """
    p = (train_counts + 1) / (train_counts.sum() + len(train_counts))
    return float(-(val_counts / val_counts.sum()) @ np.log2(p))


def byte_baselines(train: bytes, val: bytes) -> dict[str, float]:
    """Bits per validation byte of the training unigram, and of zlib at its best (level 9)."""
    counts = [np.bincount(np.frombuffer(part, np.uint8), minlength=BYTES) for part in (train, val)]
    return {
        "unigram_bits_per_byte": unigram_bits(*counts),
        "zlib_bits_per_byte": 8 * len(zlib.compress(val, 9)) / len(val),
    }


def bits(nats: float) -> float:
    """A cross-entropy in bits."""
    return nats / math.log(2)
