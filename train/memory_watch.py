"""The most that a rank's tensors take: told by a GPU's allocator, counted in one step on a CPU."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from components.data.batch import Batch
from components.parallel.base import Parallel, Step
from train.plan.tracker import Event, Tracker, in_memory

COUNTED = 2
"""The step of an attempt that is counted: in the first, optimizer state and buffers come to be."""


class MemoryWatch:
    """Takes the steps of a run, and counts every storage of one of them.

    Counting sees each operation pass and changes none: the step takes longer, and its numbers are
    the same to the last bit. Compiled blocks would run uncompiled meanwhile: they cannot be
    counted.

    Args:
        model: before a strategy takes it. What else is there by now is not training's.
        device: of this rank.
        counts: whether a CPU's step is to be counted.
    """

    def __init__(self, model: nn.Module, device: torch.device, counts: bool) -> None:
        self.device = device
        self.peak: int | None = None
        self._counts = device.type != "cuda" and counts
        self._steps = 0
        self._others: set[int] = set()
        if self._counts:
            own = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
            self._leave_out(own)

    def measured(self) -> int | None:
        """Bytes at the peak so far; None where they were not counted."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return self.peak

    def step(self, parallel: Parallel, micro_batches: list[Batch]) -> Step:
        """Take a step."""
        self._steps += 1
        if not self._counts or self._steps != COUNTED:
            return parallel.step(micro_batches)
        tracker = Tracker([])
        # What no operation of this step has made was there before it: buckets that only C++ holds
        # until a gradient lies in them.
        before = self._note(tracker)
        before_update = parallel.before_update

        def all_gradients() -> None:
            before.update(self._note(tracker))
            before_update()

        parallel.before_update = all_gradients
        try:
            with tracker, tracker.noting_resizes():
                result = parallel.step(micro_batches)
        finally:
            parallel.before_update = before_update
        self.peak = _peak(tracker.events, before)
        return result

    def _leave_out(self, own: set[int]) -> None:
        for tensor in _tensors():
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in own and key not in self._others:
                self._others.add(key)
                weakref.finalize(storage, self._others.discard, key).atexit = False

    def _note(self, tracker: Tracker) -> set[int]:
        """Count what is there; the numbers of storages that were not known."""
        begin = len(tracker.events)
        for tensor in _tensors():
            if tensor.untyped_storage()._cdata not in self._others:
                tracker.note(tensor)
        return {number for kind, number, _ in tracker.events[begin:] if kind == "+"}


def _tensors() -> Iterator[Tensor]:
    """All of this process that have a storage of their own."""
    objects = gc.get_objects()
    # Not isinstance, which asks lazy objects for their class, and they warn; and each of a million
    # objects is only asked for its type.
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, Tensor)}
    found = [o for o in objects if type(o) in kinds]
    del objects
    yield from filter(in_memory, found)


def _peak(events: Sequence[Event], before: set[int]) -> int:
    """The largest sum of storages; those in `before` count from the start."""
    births = {number: size for kind, number, size in reversed(events) if kind == "+"}
    now = most = sum(births[number] for number in before)
    there = set(before)
    for kind, number, size in events:
        if kind == "-":
            now -= size
        elif number in there:
            there.remove(number)  # what is born again later has another size
        else:
            now += size
        most = max(most, now)
    return most


def against_forecast(
    forecast: dict[str, Any] | None, peaks: Sequence[int | None]
) -> dict[str, Any]:
    """What was forecast and what was measured, of the rank that needs the most, in bytes.

    Args:
        forecast: as in the run's provenance.
        peaks: by rank.

    Returns:
        `forecast_bytes`, `measured_bytes` and `error`, the forecast's relative to what was
        measured; None where one of them is not known.
    """
    foreseen = None if forecast is None else forecast["total_peak"]
    measured = max((peak for peak in peaks if peak is not None), default=None)
    error = foreseen / measured - 1 if foreseen is not None and measured else None
    return {"forecast_bytes": foreseen, "measured_bytes": measured, "error": error}
