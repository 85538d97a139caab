"""Fixed-length samples of a flat array of tokens on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from components.data.base import Pair


def open_tokens(path: Path, dtype: str) -> NDArray[Any]:
    """The file's tokens, mapped into memory: `.npy` as it says itself, others raw in `dtype`."""
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    return np.memmap(path, dtype=dtype, mode="r")


def token_pair(seq_len: int) -> Pair:
    """One sample's inputs and targets as shapes and types, on the meta device."""
    ids = torch.empty(seq_len, dtype=torch.int64, device="meta")
    return ids, ids


class TokenSamples:
    """Pieces of seq_len + 1 tokens that do not overlap: (inputs, targets), shifted by one.

    A sample is a pair of int64 tensors (seq_len,). What is left at the end of
    the array, shorter than a piece, is not used.

    Args:
        path, dtype: see `open_tokens`.
        seq_len: tokens of an input.
        start, stop: the part of the array to cut, in tokens.
        limit: keep so many samples, evenly spaced; None keeps all.
    """

    def __init__(
        self,
        path: Path,
        dtype: str,
        seq_len: int,
        *,
        start: int = 0,
        stop: int | None = None,
        limit: int | None = None,
    ) -> None:
        self._file = (path, dtype, seq_len)
        self._part = {"start": start, "stop": stop, "limit": limit}
        tokens = open_tokens(path, dtype)[start:stop]
        pieces = len(tokens) // (seq_len + 1)
        # As a plain array over the same map: the memmap class is slow to index.
        self._pieces = np.asarray(tokens[: pieces * (seq_len + 1)]).reshape(pieces, seq_len + 1)
        self._numbers: Sequence[int] = range(pieces)
        if limit is not None and limit < pieces:
            self._numbers = [i * pieces // limit for i in range(limit)]
        self._all = len(self._numbers) == pieces

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker that is not forked opens the file itself; the array would be copied whole.
        return _reopen, (self._file, self._part)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> Pair:
        inputs, targets = self.get_batch([index])
        return inputs[0], targets[0]

    def get_batch(self, indices: list[int]) -> Pair:
        """(rows, seq_len) inputs and targets, int64."""
        if not self._all:
            indices = [self._numbers[i] for i in indices]
        pieces = self._pieces[indices]
        inputs, targets = pieces[:, :-1].astype(np.int64), pieces[:, 1:].astype(np.int64)
        return torch.from_numpy(inputs), torch.from_numpy(targets)


def _reopen(file: tuple[Path, str, int], part: dict[str, Any]) -> TokenSamples:
    return TokenSamples(*file, **part)
