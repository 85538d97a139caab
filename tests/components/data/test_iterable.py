"""Iterable data: split over ranks and workers, and the common end of an epoch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from components.data.batch import Batch
from components.data.iterable import Rows
from components.data.loader import eval_batches, train_batches
from components.errors import ConfigError

Pair = tuple[Tensor, Tensor]


def pair(number: int) -> Pair:
    return torch.tensor(number), torch.tensor(10 * number)


class Plain(IterableDataset):
    """0 .. samples - 1, with no word on how to split them."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[Pair]:
        return map(pair, range(self.samples))


class Halves(Plain):
    """Splits itself into contiguous parts."""

    def split(self, part: int, parts: int) -> Iterator[Pair]:
        size = self.samples // parts
        return map(pair, range(part * size, (part + 1) * size))


class SplitsByWorker(Plain):
    """As in PyTorch's tutorials: looks for its worker itself."""

    def __iter__(self) -> Iterator[Pair]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return map(pair, range(worker, self.samples, workers))


class Uneven(IterableDataset):
    """A given number of samples for each rank: rank r's are 100 r, 100 r + 1, ..."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def __iter__(self) -> Iterator[Pair]:
        for part in range(len(self.sizes)):
            yield from self.split(part, len(self.sizes))

    def split(self, part: int, parts: int) -> Iterator[Pair]:
        if parts == 1:
            return iter(self)
        return map(pair, range(100 * part, 100 * part + self.sizes[part]))


def over_ranks(ranks: int, work: Callable[[int, Callable[[bool], bool]], Any]) -> list[Any]:
    """`work(rank, agree)` for each rank in a thread of its own; `agree` meets all of them.

    One thread runs at a time: PyTorch takes its generator's lock with the interpreter's lock
    held, and may give the latter up inside (to a collection of garbage), so that two threads
    that draw at once can wait for each other for ever. Ranks are processes and do not.
    """
    barrier = threading.Barrier(ranks, timeout=20)
    turn = threading.Lock()
    answers = [False] * ranks

    def meet() -> None:
        turn.release()
        try:
            barrier.wait()
        finally:
            turn.acquire()

    def on(rank: int) -> Any:
        def agree(mine: bool) -> bool:
            answers[rank] = mine
            meet()
            everybody = all(answers)
            meet()
            return everybody

        with turn:
            return work(rank, agree)

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(on, range(ranks)))


def counted(batch: Batch) -> list[int]:
    assert batch.targets.tolist() == [10 * i for i in batch.inputs.tolist()]
    return batch.inputs[: batch.valid].tolist()


def train(
    data_set: Any,
    steps: int,
    rank: int = 0,
    agree: Callable[[bool], bool] | None = None,
    **options: Any,
) -> list[list[list[int]]]:
    defaults: dict[str, Any] = {
        "seed": 0,
        "shuffle": False,
        "epoch_end": "drop",
        "micro_batch_size": 1,
        "accumulation": 1,
        "dp_size": 1,
    }
    batches = train_batches(data_set, **defaults | options, dp_rank=rank, agree=agree)
    try:
        return [[counted(batch) for batch in step] for step in islice(batches, steps)]
    finally:
        batches.close()


@pytest.mark.parametrize("data_set", [Plain(12), Halves(12), SplitsByWorker(12)])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_id_comes_once_an_epoch(data_set: Any, num_workers: int) -> None:
    # One rank after the other: all have six samples, so each answer to `agree` is everybody's.
    ranks = [
        train(data_set, 12, rank, bool, dp_size=2, num_workers=num_workers) for rank in range(2)
    ]
    for epoch in (slice(0, 6), slice(6, 12)):
        ids = [i for steps in ranks for step in steps[epoch] for micro in step for i in micro]
        assert sorted(ids) == list(range(12))


def test_the_rank_that_runs_out_first_ends_the_epoch_for_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        ranks = over_ranks(2, lambda rank, agree: train(Uneven(3, 2), 5, rank, agree, dp_size=2))
    assert ranks[0] == [[[0]], [[1]], [[0]], [[1]], [[0]]]
    assert ranks[1] == [[[100]], [[101]], [[100]], [[101]], [[100]]]
    messages = [record.getMessage() for record in caplog.records]
    ends = [message for message in messages if message.startswith("epoch 0 ended after 2 steps")]
    # Rank 0 had read one sample more, rank 1 none.
    assert sorted("1 samples that this rank" in message for message in ends) == [False, True]


def test_partial_goes_on_with_padding_until_no_rank_has_any() -> None:
    ranks = over_ranks(
        2,
        lambda rank, agree: train(
            Uneven(5, 2), 4, rank, agree, dp_size=2, micro_batch_size=2, epoch_end="partial"
        ),
    )
    assert ranks[0] == [[[0, 1]], [[2, 3]], [[4]], [[0, 1]]]
    assert ranks[1] == [[[100, 101]], [[]], [[]], [[100, 101]]]


def test_partial_pads_a_rank_that_never_had_a_sample() -> None:
    ranks = over_ranks(
        2, lambda rank, agree: train(Uneven(1, 0), 2, rank, agree, dp_size=2, epoch_end="partial")
    )
    assert ranks == [[[[0]], [[0]]], [[[]], [[]]]]


def test_micro_batches_of_a_step_are_read_in_turn() -> None:
    assert train(Plain(9), 2, micro_batch_size=2, accumulation=2) == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_starting_at_a_step_is_skipping_to_it(num_workers: int) -> None:
    options: dict[str, Any] = {
        "micro_batch_size": 2,
        "num_workers": num_workers,
        "epoch_end": "partial",
    }
    straight = train(Plain(7), 10, **options)
    assert train(Plain(7), 4, start_step=6, **options) == straight[6:]


def test_an_epoch_without_a_step_is_refused_on_every_rank() -> None:
    def work(rank: int, agree: Callable[[bool], bool]) -> str:
        with pytest.raises(ConfigError, match="global_batch_size=4") as refusal:
            train(Uneven(8, 1), 1, rank, agree, dp_size=2, micro_batch_size=2)
        return str(refusal.value)

    assert len(over_ranks(2, work)) == 2


def test_several_ranks_need_a_way_to_agree() -> None:
    with pytest.raises(ValueError, match="agree"):
        train(Plain(4), 1, dp_size=2)


@pytest.mark.parametrize("sizes", [(3, 2), (5, 0), (0, 1), (4, 4)])
def test_evaluation_counts_each_sample_once_in_equally_many_batches(
    sizes: tuple[int, int],
) -> None:
    def work(rank: int, agree: Callable[[bool], bool]) -> list[Batch]:
        return list(
            eval_batches(Uneven(*sizes), micro_batch_size=2, dp_rank=rank, dp_size=2, agree=agree)
        )

    ranks = over_ranks(2, work)
    assert [len(batches) for batches in ranks] == [-(-max(sizes) // 2)] * 2
    assert all(batch.rows == 2 for batches in ranks for batch in batches)
    for rank, batches in enumerate(ranks):
        ids = [i for batch in batches for i in counted(batch)]
        assert ids == [100 * rank + i for i in range(sizes[rank])]


def test_rows_cuts_and_joins_stacks() -> None:
    stacks = [(torch.arange(n), torch.arange(n)) for n in (3, 1, 2)]
    rows = Rows(iter(stacks))
    taken = []
    while (part := rows.take(2)) is not None:
        taken.append(part[0].tolist())
    assert taken == [[0, 1], [2, 0], [0, 1]]
