"""Worker processes that fetch samples: their start, and their certain end."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from components.cluster.signals import held

T = TypeVar("T")

NOT_THEIRS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that are the training process's business.

Schedulers signal all processes of a job at once. A worker that died of it would fail the run
before the training process has saved its state.
"""


def worker_loader(
    data_set: Dataset[Any], num_workers: int, seed: int, *, requests: Any = None
) -> DataLoader[Any]:
    """A DataLoader that only moves what `data_set` makes: batching is done elsewhere.

    Args:
        data_set: map-style, called with each of `requests` in their order, or iterable.
        seed: of the workers' random states at their start.
        requests: an iterable, possibly without end.
    """
    return DataLoader(
        data_set,
        batch_size=None,
        sampler=requests,
        num_workers=num_workers,
        collate_fn=_as_it_is,
        worker_init_fn=_start,
        # Said here, because ranks inherit another default: workers of a fork server would be
        # the server's children, and outlive the training process.
        multiprocessing_context="fork",
        # Without a generator of its own, the loader would draw from the one that dropout uses.
        generator=torch.Generator().manual_seed(seed),
        # Iterable data is read epoch after epoch by the same workers.
        persistent_workers=requests is None,
    )


def started(loader: DataLoader[T]) -> Iterator[T]:
    """The loader's iterator, whose workers run. No signal can end one on its way there.

    Call it in the main thread: workers end with the thread that started them.
    """
    with held(*NOT_THEIRS):
        return iter(loader)


def drain(iterator: Iterator[T]) -> Generator[T, None, None]:
    """The loader's items; closing the generator, or any error, ends the workers."""
    try:
        yield from iterator
    finally:
        stop(iterator)


def stop(iterator: Any) -> None:
    """End a loader's workers, by force where they do not follow."""
    processes = list(iterator._workers)
    iterator._shutdown_workers()
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()


def _as_it_is(item: T) -> T:
    return item


def _start(worker: int) -> None:
    """Ignore signals, which are held back until here, and end when the training process does."""
    for number in NOT_THEIRS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NOT_THEIRS)
    if sys.platform == "linux":
        # PR_SET_PDEATHSIG: however the training process dies, even inside a long fetch. It means
        # the thread that started the worker.
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
