"""The contract of a data set: what it prepares, delivers and tells of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor
from torch.utils.data import IterableDataset

from components.errors import ConfigError

EpochEnd = Literal["drop", "partial"]
Pair = tuple[Tensor, Tensor]
"""(inputs, targets): of one sample, or stacked along a first dimension of rows."""


class MapSamples(Protocol):
    """Samples by number: what `train_set` and `val_set` return, unless iterable."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Pair:
        """Sample `index` as (input, target), without a dimension of rows.

        The place for random augmentation: `torch`, `numpy.random` and `random`
        are seeded before each call by (seed, epoch, position in the epoch).
        """
        ...


@runtime_checkable
class BatchSamples(MapSamples, Protocol):
    """Samples that can be fetched many at a time, which is much cheaper."""

    def get_batch(self, indices: list[int], /) -> Pair:
        """The samples of `indices`, stacked. Draws no random numbers: nothing is seeded for it."""
        ...


Samples = MapSamples | IterableDataset[Pair]


class Data(ABC):
    """A task's samples.

    Constructors only keep and check their options: they run in the controller
    as well as on every rank. Heavy work belongs into `prepare`.

    Args:
        num_workers: processes per rank that fetch samples; 0 fetches them in
            the training process, the fastest way for samples held in memory.
        epoch_end: what becomes of the samples that are left when the epoch
            has no whole global batch any more: `drop` leaves them out,
            `partial` takes a step with fewer samples, divided by that number.
        shuffle: a new order in each epoch; False takes samples as they are numbered.

    Raises:
        ConfigError: for a negative `num_workers`.
    """

    def __init__(
        self, *, num_workers: int = 0, epoch_end: EpochEnd = "drop", shuffle: bool = True
    ) -> None:
        if num_workers < 0:
            raise ConfigError(
                f"data.num_workers={num_workers} must not be negative: "
                "0 fetches samples in the training process."
            )
        if epoch_end not in ("drop", "partial"):
            raise ConfigError(f"data.epoch_end={epoch_end} must be drop or partial.")
        self.num_workers = num_workers
        self.epoch_end: EpochEnd = epoch_end
        self.shuffle = shuffle

    def prepare(self) -> None:  # noqa: B027  (most data sets have nothing to prepare)
        """One-time work, into a cache. Every rank calls it, before ranks can talk to each other.

        `components.data.prepared.prepare_once` lets one process do it while the others wait.
        """

    @abstractmethod
    def train_set(self) -> Samples:
        """The training samples. Called after `prepare`."""

    def val_set(self) -> Samples | None:
        """The validation samples; None when there are none."""
        return None

    def example(self) -> Pair | None:
        """Shapes and types of one training sample, on the meta device; None before it is read.

        For whoever has to know them without the data.
        """
        return None

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """What the run's record keeps: `fingerprint`, sample counts, baselines. JSON-able."""

    def derive(self, metrics: dict[str, float]) -> dict[str, float]:
        """Further validation metrics, computed from the means (`loss`, ...) of an evaluation."""
        return {}

    def baselines(self) -> dict[str, float]:
        """Validation metrics of trivial predictors, to be compared with `derive`'s."""
        return {}
