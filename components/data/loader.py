"""Micro-batches for one rank: training without end from any step, evaluation of each sample once.

The window of a step (`GlobalOrder`) is cut so that one process with
accumulation A sees the same micro-batches as A ranks without: micro-batch m of
data-parallel rank r takes `window[(m * dp_size + r) * micro :][:micro]`.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from itertools import count, islice
from typing import NamedTuple

import torch
from torch.utils.data import Dataset, IterableDataset

from components.data import iterable
from components.data.base import BatchSamples, EpochEnd, MapSamples, Samples
from components.data.batch import Batch
from components.data.iterable import Agree
from components.data.order import GlobalOrder
from components.data.streams import SAMPLE, WORKER, derive_seed, mix, seed_libraries, set_aside
from components.data.workers import drain, started, worker_loader

log = logging.getLogger(__name__)


class Request(NamedTuple):
    """One micro-batch to fetch.

    `ids` always has `micro_batch_size` members, of which the first `valid`
    count; `position` is that of the first in its epoch.
    """

    ids: list[int]
    valid: int
    epoch: int
    position: int


class Fetcher(Dataset[Batch]):
    """Fetches micro-batches of a map-style data set, in this process or in a worker."""

    def __init__(self, samples: MapSamples, seed: int) -> None:
        self.samples = samples
        self.seed = seed
        self._epoch = -1
        self._base = 0

    def __getitem__(self, request: Request) -> Batch:
        """One sample at a time, each under its own random stream."""
        if request.epoch != self._epoch:
            self._epoch = request.epoch
            self._base = derive_seed(self.seed, SAMPLE, request.epoch)
        inputs, targets = [], []
        for position, index in enumerate(request.ids, request.position):
            seed_libraries(mix(self._base, position))
            x, y = self.samples[index]
            inputs.append(torch.as_tensor(x))
            targets.append(torch.as_tensor(y))
        return Batch(torch.stack(inputs), torch.stack(targets), request.valid)

    def aside(self, request: Request) -> Batch:
        """The same in the training process, whose random state stays as it is."""
        with set_aside():
            return self[request]


class BatchFetcher(Dataset[Batch]):
    """The same for data sets that have `get_batch`: direct, and without random streams."""

    def __init__(self, samples: BatchSamples) -> None:
        self.samples = samples

    def __getitem__(self, request: Request) -> Batch:
        inputs, targets = self.samples.get_batch(request.ids)
        return Batch(inputs, targets, request.valid)

    aside = __getitem__


def train_batches(
    data_set: Samples,
    *,
    seed: int,
    shuffle: bool,
    epoch_end: EpochEnd,
    micro_batch_size: int,
    accumulation: int,
    dp_rank: int,
    dp_size: int,
    start_step: int = 0,
    num_workers: int = 0,
    agree: Agree | None = None,
) -> Generator[list[Batch], None, None]:
    """For each step from `start_step`, without end, this rank's `accumulation` micro-batches.

    Each has exactly `micro_batch_size` rows; in the last step of an epoch
    under `partial`, missing rows are padding, and `Batch.valid` may be 0.
    Call `close()` on the generator to end the workers.

    Args:
        data_set: map-style or iterable. The global batch is
            micro_batch_size * accumulation * dp_size.
        seed: of the order and of random draws while fetching.
        shuffle: a new order in each epoch. Iterable data comes in its own order.
        start_step: steps already taken. Iterable data is read again up to there.
        num_workers: processes that fetch; 0 fetches here.
        agree: needed for iterable data over several ranks, which may run out
            at different steps. Called at every step of iterable data, else never.

    Raises:
        ConfigError: when an epoch would have no step.
    """
    if isinstance(data_set, IterableDataset):
        if shuffle:
            log.info("data.shuffle=true is left to the data set itself, which is an iterable")
        return iterable.train_batches(
            data_set,
            seed=seed,
            epoch_end=epoch_end,
            micro_batch_size=micro_batch_size,
            accumulation=accumulation,
            dp_rank=dp_rank,
            dp_size=dp_size,
            start_step=start_step,
            num_workers=num_workers,
            agree=iterable.agreement(agree, dp_size),
        )
    order = GlobalOrder(
        len(data_set),
        micro_batch_size * accumulation * dp_size,
        seed=seed,
        shuffle=shuffle,
        epoch_end=epoch_end,
    )
    order.tell_unused()
    requests = _train_requests(order, micro_batch_size, accumulation, dp_rank, dp_size, start_step)
    batches = _fetch(data_set, requests, seed, dp_rank, num_workers)
    return _in_steps(batches, accumulation)


def same_place(
    data_set: Samples, step: int, saved_batch_size: int, global_batch_size: int, epoch_end: EpochEnd
) -> int:
    """The step at which a run goes on in its data with another global batch.

    The same epoch, and the first step that repeats no sample of it: fewer than a global batch
    are left out. Epochs of iterable data have no known length: there it is counted from the start.

    Args:
        step: steps taken with `saved_batch_size`.
    """
    if saved_batch_size == global_batch_size:
        return step
    if isinstance(data_set, IterableDataset):
        return -(-step * saved_batch_size // global_batch_size)
    before, after = (
        GlobalOrder(len(data_set), size, seed=0, epoch_end=epoch_end)
        for size in (saved_batch_size, global_batch_size)
    )
    return after.step_at(*before.place(step))


def eval_batches(
    data_set: Samples,
    *,
    micro_batch_size: int,
    dp_rank: int,
    dp_size: int,
    num_workers: int = 0,
    agree: Agree | None = None,
) -> Generator[Batch, None, None]:
    """This rank's micro-batches of one evaluation: over all ranks, each sample counts once.

    Every rank gets the same number of Batches, each of `micro_batch_size`
    rows, padded where samples are missing (`valid` may be 0). Random draws
    while fetching are the same in every evaluation.

    Args:
        agree: as for `train_batches`.
    """
    if isinstance(data_set, IterableDataset):
        return iterable.eval_batches(
            data_set,
            micro_batch_size=micro_batch_size,
            dp_rank=dp_rank,
            dp_size=dp_size,
            num_workers=num_workers,
            agree=iterable.agreement(agree, dp_size),
        )
    requests = _eval_requests(len(data_set), micro_batch_size, dp_rank, dp_size)
    return _fetch(data_set, requests, 0, dp_rank, num_workers)


def _train_requests(
    order: GlobalOrder, micro: int, accumulation: int, dp_rank: int, dp_size: int, start_step: int
) -> Iterator[Request]:
    starts = [(m * dp_size + dp_rank) * micro for m in range(accumulation)]
    for step in count(start_step):
        epoch, window = order.window(step)
        first = (step % order.steps_per_epoch) * order.global_batch_size
        for start in starts:
            ids = window[start : start + micro].tolist()
            valid = len(ids)
            if valid < micro:
                ids += [int(window[0])] * (micro - valid)
            yield Request(ids, valid, epoch, first + start)


def _eval_requests(samples: int, micro: int, dp_rank: int, dp_size: int) -> Iterator[Request]:
    for start in range(0, samples, micro * dp_size):
        first = start + dp_rank * micro
        ids = list(range(first, min(first + micro, samples)))
        yield Request(ids + [0] * (micro - len(ids)), len(ids), 0, first)


def _fetch(
    samples: MapSamples, requests: Iterator[Request], seed: int, dp_rank: int, num_workers: int
) -> Generator[Batch, None, None]:
    fetcher = BatchFetcher(samples) if isinstance(samples, BatchSamples) else Fetcher(samples, seed)
    if num_workers:
        start_seed = derive_seed(seed, WORKER, dp_rank)
        loader = worker_loader(fetcher, num_workers, start_seed, requests=requests)
        yield from drain(started(loader))
    else:
        yield from map(fetcher.aside, requests)


def _in_steps(
    batches: Generator[Batch, None, None], accumulation: int
) -> Generator[list[Batch], None, None]:
    try:
        while True:
            yield list(islice(batches, accumulation))
    finally:
        batches.close()
