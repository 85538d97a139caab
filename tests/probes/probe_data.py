"""Data sets of a few numbers, map-style and iterable."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from components.data.base import Data, EpochEnd, Pair
from components.data.tensor_samples import TensorSamples


class Numbers(Data):
    """The given numbers as (1,) inputs, in their order; targets are zeros.

    Args:
        train, val: the samples; a string `inf` is an infinity. No validation without `val`.
        iterable: deliver the training samples as an iterable that does not split itself.
        shares: deliver an iterable that splits itself: the first consumer gets that many
            samples, the second the rest.
    """

    def __init__(
        self,
        train: list[Any],
        val: list[Any] | None = None,
        iterable: bool = False,
        shares: int | None = None,
        num_workers: int = 0,
        epoch_end: EpochEnd = "drop",
    ) -> None:
        super().__init__(num_workers=num_workers, epoch_end=epoch_end, shuffle=False)
        self.train = [float(value) for value in train]
        self.val = [float(value) for value in val or []]
        self.iterable = iterable
        self.shares = shares

    def _set(self, numbers: list[float]) -> Any:
        if self.shares is not None:
            return Shares(numbers, self.shares)
        if self.iterable:
            return Stream(numbers)
        return TensorSamples(torch.tensor(numbers)[:, None], torch.zeros(len(numbers)))

    def train_set(self) -> Any:
        return self._set(self.train)

    def val_set(self) -> Any:
        return self._set(self.val) if self.val else None

    def record(self) -> dict[str, Any]:
        return {"train_samples": len(self.train), "finite": all(map(math.isfinite, self.train))}


class Given(Data):
    """The given (samples, ...) tensors, in their order; the same for validation."""

    def __init__(self, inputs: Tensor, targets: Tensor, epoch_end: EpochEnd = "drop") -> None:
        super().__init__(epoch_end=epoch_end, shuffle=False)
        self.samples = TensorSamples(inputs, targets)

    def train_set(self) -> Any:
        return self.samples

    def val_set(self) -> Any:
        return self.samples

    def record(self) -> dict[str, Any]:
        return {}


class Stream(IterableDataset[Pair]):
    """Reads everything, whoever asks."""

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = numbers

    def __iter__(self) -> Iterator[Pair]:
        for number in self.numbers:
            yield torch.tensor([number]), torch.tensor(0.0)


class Shares(Stream):
    """Gives the first of two consumers `first` samples, the other the rest."""

    def __init__(self, numbers: list[float], first: int) -> None:
        super().__init__(numbers)
        self.first = first

    def split(self, part: int, parts: int) -> Iterator[Pair]:
        own = [self.numbers[: self.first], self.numbers[self.first :]]
        if parts == 1:
            return iter(self)
        return iter(Stream(own[part]))
