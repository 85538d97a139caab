"""Micro-batches of map-style data: which samples, on which rank, in which step."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor

from components.data.batch import Batch
from components.data.loader import eval_batches, train_batches
from components.data.order import GlobalOrder
from components.errors import ConfigError


class Numbers:
    """Sample i is (i, 10 i); fetched one by one."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        assert 0 <= index < self.samples
        return torch.tensor(index), torch.tensor(10 * index)


class FastNumbers(Numbers):
    """The same, fetched many at a time."""

    def get_batch(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        ids = torch.tensor(indices)
        assert ids.min() >= 0
        assert ids.max() < self.samples
        return ids, 10 * ids


DEFAULTS: dict[str, Any] = {
    "seed": 5,
    "shuffle": True,
    "epoch_end": "drop",
    "micro_batch_size": 2,
    "accumulation": 1,
    "dp_rank": 0,
    "dp_size": 1,
}


def counted(batch: Batch) -> list[int]:
    """The ids that count, having checked the targets that go with them."""
    assert batch.targets.tolist() == [10 * i for i in batch.inputs.tolist()]
    return batch.inputs[: batch.valid].tolist()


def ids_of_steps(data_set: Any, steps: int, **options: Any) -> list[list[list[int]]]:
    """For each step, for each micro-batch, the ids that count."""
    batches = train_batches(data_set, **DEFAULTS | options)
    try:
        return [[counted(batch) for batch in step] for step in islice(batches, steps)]
    finally:
        batches.close()


@pytest.fixture(params=[Numbers, FastNumbers])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("dp_size", [1, 2, 4])
@pytest.mark.parametrize("epoch_end", ["drop", "partial"])
def test_every_layout_sees_the_same_micro_batches(kind: Any, dp_size: int, epoch_end: str) -> None:
    reference = ids_of_steps(kind(22), 6, accumulation=4, epoch_end=epoch_end)
    accumulation = 4 // dp_size
    ranks = [
        ids_of_steps(
            kind(22),
            6,
            accumulation=accumulation,
            dp_rank=rank,
            dp_size=dp_size,
            epoch_end=epoch_end,
        )
        for rank in range(dp_size)
    ]
    for step in range(6):
        together = [ranks[rank][step][m] for m in range(accumulation) for rank in range(dp_size)]
        assert together == reference[step]


def test_a_step_is_its_window_of_the_global_order(kind: Any) -> None:
    order = GlobalOrder(12, 4, seed=5)
    for step, micros in enumerate(ids_of_steps(kind(12), 7, accumulation=2)):
        assert [i for ids in micros for i in ids] == order.window(step)[1].tolist()


def test_five_micro_batches_by_two_partial(kind: Any) -> None:
    batches = train_batches(
        kind(5), **DEFAULTS | {"micro_batch_size": 1, "accumulation": 2, "epoch_end": "partial"}
    )
    steps = list(islice(batches, 4))
    assert [len(step) for step in steps] == [2, 2, 2, 2]
    assert [sum(batch.valid for batch in step) for step in steps] == [2, 2, 1, 2]
    assert [batch.valid for batch in steps[2]] == [1, 0]
    assert all(batch.rows == 1 for step in steps for batch in step)
    # Padding repeats the window's first sample.
    assert steps[2][1].inputs.tolist() == steps[2][0].inputs.tolist()


def test_five_micro_batches_by_two_drop(kind: Any) -> None:
    steps = ids_of_steps(kind(5), 4, micro_batch_size=1, accumulation=2, shuffle=False)
    assert steps == [[[0], [1]], [[2], [3]], [[0], [1]], [[2], [3]]]


def test_partial_micro_batch_pads_its_tail(kind: Any) -> None:
    (step,) = islice(
        train_batches(
            kind(3),
            **DEFAULTS
            | {"shuffle": False, "epoch_end": "partial", "accumulation": 2, "micro_batch_size": 2},
        ),
        1,
    )
    assert [batch.inputs.tolist() for batch in step] == [[0, 1], [2, 0]]
    assert [batch.valid for batch in step] == [2, 1]


@pytest.mark.parametrize("start_step", [1, 3, 5, 7])
def test_starting_at_a_step_is_skipping_to_it(kind: Any, start_step: int) -> None:
    options = {"accumulation": 2, "epoch_end": "partial"}
    straight = ids_of_steps(kind(18), 10, **options)
    resumed = ids_of_steps(kind(18), 10 - start_step, start_step=start_step, **options)
    assert resumed == straight[start_step:]


def test_workers_deliver_the_same_batches_from_any_step_and_end(kind: Any) -> None:
    options = {"accumulation": 2, "epoch_end": "partial"}
    before = set(multiprocessing.active_children())
    straight = ids_of_steps(kind(18), 8, **options)
    batches = train_batches(kind(18), **DEFAULTS | options, num_workers=2, start_step=3)
    fetched = [[counted(batch) for batch in step] for step in islice(batches, 5)]
    assert len(set(multiprocessing.active_children()) - before) == 2
    batches.close()
    assert set(multiprocessing.active_children()) == before
    assert fetched == straight[3:]


def test_an_error_in_a_worker_arrives_and_ends_the_workers() -> None:
    class Broken(Numbers):
        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            raise RuntimeError("sample unreadable")

    before = set(multiprocessing.active_children())
    with pytest.raises(RuntimeError, match="sample unreadable"):
        next(train_batches(Broken(4), **DEFAULTS, num_workers=1))
    assert set(multiprocessing.active_children()) == before


def test_a_mistaken_size_is_refused_at_the_call() -> None:
    with pytest.raises(ConfigError, match="global_batch_size=8"):
        train_batches(Numbers(7), **DEFAULTS | {"accumulation": 2, "dp_size": 2})


@pytest.mark.parametrize("dp_size", [1, 2, 3, 4])
@pytest.mark.parametrize("samples", [1, 5, 12, 13])
def test_evaluation_counts_each_sample_once(kind: Any, samples: int, dp_size: int) -> None:
    ranks = [
        list(eval_batches(kind(samples), micro_batch_size=3, dp_rank=rank, dp_size=dp_size))
        for rank in range(dp_size)
    ]
    assert len({len(batches) for batches in ranks}) == 1
    assert len(ranks[0]) == -(-samples // (3 * dp_size))
    every = [batch for batches in ranks for batch in batches]
    assert all(batch.rows == 3 for batch in every)
    assert sorted(i for batch in every for i in counted(batch)) == list(range(samples))


def test_evaluation_through_workers_ends_them() -> None:
    before = set(multiprocessing.active_children())
    batches: Iterator[Batch] = eval_batches(
        Numbers(7), micro_batch_size=2, dp_rank=0, dp_size=1, num_workers=2
    )
    assert [counted(batch) for batch in batches] == [[0, 1], [2, 3], [4, 5], [6]]
    assert set(multiprocessing.active_children()) == before


def test_workers_outlive_a_signal_to_all_but_not_the_training_process() -> None:
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def train_until_killed() -> None:
        os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
        batches = train_batches(Numbers(8), **DEFAULTS, num_workers=2)
        next(batches)
        workers = [process.pid for process in multiprocessing.active_children()]
        for worker in workers:
            psutil.Process(worker).send_signal(signal.SIGTERM)
        next(batches)
        sender.send((workers, counted(next(batches)[0])))
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=train_until_killed)
    process.start()
    sender.close()  # so that a process which fails ends the wait
    workers, third = receiver.recv()
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    assert third == ids_of_steps(Numbers(8), 3)[2][0]
    until = time.monotonic() + 20
    while any(_alive(worker) for worker in workers):
        assert time.monotonic() < until, "a worker outlives the process that it worked for"
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
