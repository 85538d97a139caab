"""Iterable data: split over ranks and workers, and agreement on when an epoch is over.

The split: a data set that has a method `split(part: int, parts: int)`
returning an iterable over its share is asked for it; from any other, element i
goes to consumer i % parts, which needs all of them to read the same sequence.
A data set must not look at ranks or workers itself in any other way.

Ranks may hold different numbers of samples, and a rank that stops alone leaves
the others waiting. So all agree at every step whether each has its samples.
Under `drop` the epoch ends for all at the first step that some rank cannot
fill; under `partial` ranks go on, with padding, until none has any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from itertools import count, islice

import torch
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils import worker as torch_worker

from components.data.base import EpochEnd, Pair
from components.data.batch import Batch
from components.data.streams import SHARE, WORKER, OwnState, derive_seed, seed_libraries, set_aside
from components.data.workers import started, stop, worker_loader
from components.errors import ConfigError

log = logging.getLogger(__name__)

Agree = Callable[[bool], bool]
"""Whether all ranks say True; called by all of them, each with its own answer."""


def agreement(agree: Agree | None, dp_size: int) -> Agree:
    """The caller's `agree`; one rank agrees with itself."""
    if agree is not None:
        return agree
    if dp_size > 1:
        raise ValueError("iterable data over several ranks needs `agree`")
    return bool


def elements(data_set: IterableDataset[Pair], part: int, parts: int) -> Iterator[Pair]:
    """The elements of one of `parts` consumers, by the data set's own split or a strided one."""
    split = getattr(data_set, "split", None)
    if callable(split):
        return iter(split(part, parts))
    return islice(iter(data_set), part, None, parts)


class Share(IterableDataset[Pair]):
    """One rank's share, cut further over its workers; yields stacks of up to `rows` samples.

    Each `iter` is a new epoch, with a random stream of its own.
    """

    def __init__(
        self, data_set: IterableDataset[Pair], dp_rank: int, dp_size: int, rows: int, seed: int
    ) -> None:
        self.data_set = data_set
        self.dp_rank = dp_rank
        self.dp_size = dp_size
        self.rows = rows
        self.seed = seed
        self.epoch = -1
        self._place: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Pair]:
        self.epoch += 1
        worker, workers = self._worker()
        seed_libraries(derive_seed(self.seed, SHARE, self.epoch, self.dp_rank, worker))
        part, parts = self.dp_rank * workers + worker, self.dp_size * workers
        samples = elements(self.data_set, part, parts)
        while rows := list(islice(samples, self.rows)):
            yield _stack(rows)

    def _worker(self) -> tuple[int, int]:
        if self._place is None:
            info = get_worker_info()
            self._place = (info.id, info.num_workers) if info else (0, 1)
            # A data set that splits itself by worker would be split twice, and lose samples
            # without a sign: it finds itself alone.
            torch_worker._worker_info = None
        return self._place


class Rows:
    """Cuts a stream of stacks, of any sizes, into takes of given sizes."""

    def __init__(self, stacks: Iterator[Pair]) -> None:
        self._stacks = stacks
        self._held: list[Pair] = []
        self._count = 0

    def take(self, rows: int) -> Pair | None:
        """The next `rows` samples, fewer at the end, None after it."""
        while self._count < rows and (pair := next(self._stacks, None)) is not None:
            self._held.append(pair)
            self._count += len(pair[0])
        if not self._held:
            return None
        inputs, targets = (
            torch.cat(parts) if len(parts) > 1 else parts[0]
            for parts in zip(*self._held, strict=True)
        )
        rest = (inputs[rows:], targets[rows:])
        self._held = [rest] if len(rest[0]) else []
        self._count = len(rest[0])
        return inputs[:rows], targets[:rows]


class Epochs:
    """A rank's share, epoch after epoch, read here or by workers."""

    def __init__(self, share: Share, num_workers: int) -> None:
        self._share = share
        self._loader = None
        if num_workers:
            start_seed = derive_seed(share.seed, WORKER, share.dp_rank)
            self._loader = worker_loader(share, num_workers, start_seed)
        self._iterator: Iterator[Pair] | None = None

    def next_epoch(self) -> Rows:
        """The next epoch's samples; what is left of the last is given up."""
        if self._loader is not None:
            # The same object in every epoch, so that one `stop` ends all workers.
            self._iterator = started(self._loader)
            return Rows(self._iterator)
        return Rows(_set_apart(iter(self._share)))

    def close(self) -> None:
        """End the workers."""
        if self._iterator is not None:
            stop(self._iterator)

    def template(self) -> Pair:
        """One sample of the whole data set as a stack of one: the shapes of padding."""
        with set_aside():
            return _stack([next(elements(self._share.data_set, 0, 1))])


def train_batches(
    data_set: IterableDataset[Pair],
    *,
    seed: int,
    epoch_end: EpochEnd,
    micro_batch_size: int,
    accumulation: int,
    dp_rank: int,
    dp_size: int,
    start_step: int,
    num_workers: int,
    agree: Agree,
) -> Generator[list[Batch], None, None]:
    """See `components.data.loader.train_batches`. Steps before `start_step` are read and left.

    Raises:
        ConfigError: when an epoch has no step, on all ranks.
    """
    wanted = micro_batch_size * accumulation
    epochs = Epochs(Share(data_set, dp_rank, dp_size, micro_batch_size, seed), num_workers)
    step = 0
    try:
        for epoch in count():
            rows = epochs.next_epoch()
            first = step
            while True:
                pairs = [rows.take(micro_batch_size) for _ in range(accumulation)]
                taken = sum(len(pair[0]) for pair in pairs if pair)
                if not agree(taken == wanted) and (epoch_end == "drop" or agree(taken == 0)):
                    break
                if step >= start_step:
                    yield [_padded(pair, micro_batch_size, epochs) for pair in pairs]
                step += 1
            log.info(
                "epoch %d ended after %d steps, when some rank had less than its %d samples of a "
                "step: %d samples that this rank had read are dropped (data.epoch_end=%s)",
                epoch,
                step - first,
                wanted,
                taken,
                epoch_end,
            )
            if step == first:
                raise ConfigError(
                    f"data: an epoch has no step, because some rank has fewer than the {wanted} "
                    f"samples that its share of global_batch_size={wanted * dp_size} asks for "
                    "(or none at all: can the data be read a second time?). Take a smaller "
                    "global_batch_size, fewer ranks, or data.epoch_end=partial."
                )
    finally:
        epochs.close()


def eval_batches(
    data_set: IterableDataset[Pair],
    *,
    micro_batch_size: int,
    dp_rank: int,
    dp_size: int,
    num_workers: int,
    agree: Agree,
) -> Generator[Batch, None, None]:
    """See `components.data.loader.eval_batches`. Ends for all ranks when none has samples left."""
    epochs = Epochs(Share(data_set, dp_rank, dp_size, micro_batch_size, 0), num_workers)
    try:
        rows = epochs.next_epoch()
        while not agree((pair := rows.take(micro_batch_size)) is None):
            yield _padded(pair, micro_batch_size, epochs)
    finally:
        epochs.close()


def _stack(samples: list[Pair]) -> Pair:
    inputs, targets = zip(*samples, strict=True)
    return (
        torch.stack([torch.as_tensor(x) for x in inputs]),
        torch.stack([torch.as_tensor(y) for y in targets]),
    )


def _padded(pair: Pair | None, rows: int, epochs: Epochs) -> Batch:
    valid = len(pair[0]) if pair else 0
    inputs, targets = pair if pair else epochs.template()
    missing = rows - len(inputs)
    if missing:
        inputs = torch.cat([inputs, inputs[:1].expand(missing, *inputs.shape[1:])])
        targets = torch.cat([targets, targets[:1].expand(missing, *targets.shape[1:])])
    return Batch(inputs, targets, valid)


def _set_apart(stacks: Iterator[Pair]) -> Iterator[Pair]:
    """The same stacks, drawn under a random state of their own (which `Share` seeds)."""
    own = OwnState(0)
    while True:
        with own:
            stack = next(stacks, None)
        if stack is None:
            return
        yield stack
