"""The end of each step: whether to save, and whether to stop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from signal import Signals

from components.checkpoint.saver import Saver
from components.cluster.control import Control
from components.cluster.preemption import Notice, Preempted
from components.data.batch import Batch
from train.saved import Saved
from train.training_state import TrainingState

ASK_EVERY_S = 0.05
ASK_WITHIN = 10
"""Where steps are short, ranks ask each other so often only, but within so many steps."""

ASK_EVERY = 8
"""Micro-batches of an evaluation between two questions whether it is to be cut short."""


class CutShort(Exception):
    """An evaluation was left because the run has been warned to end."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"{Signals(signum).name} in an evaluation")
        self.signum = signum


class Keeper:
    """Saves when a checkpoint is due, and saves and stops when some rank has been warned.

    All ranks ask each other at the end of a step, so that all do the same at the same step:
    of each step, unless steps are so short that the question would cost more than a little.

    Args:
        saver: writes the checkpoints.
        control: carries the question.
        notice: this rank's own warning.
        state: what is saved.
    """

    def __init__(
        self, saver: Saver, control: Control, notice: Notice, state: TrainingState
    ) -> None:
        self.saver = saver
        self.control = control
        self.notice = notice
        self.state = state
        self._asked = (0, time.monotonic())
        self._ask_at = 0

    def go_on_from(self, saved: Saved) -> None:
        """Put back what a checkpoint holds. Call right before `run`, on all ranks."""
        self.state.restore(saved)
        self.saver.best = [(value, step) for value, step in saved.training["best"]]
        self.saver.saved = self.state.loop.step
        self._asked = (self.state.loop.step, time.monotonic())

    def run(self) -> None:
        """The loop, watched over.

        Raises:
            Preempted: when the run has been warned; it is saved.
        """
        self.state.loop.boundary = self.boundary
        self.state.loop.watched = self.watched
        try:
            self.state.loop.run()
        except CutShort as cut:
            self.stop(cut.signum)

    def save_last(self) -> None:
        """Save the finished run. Call on all ranks."""
        self.save()
        self.saver.wait()

    def boundary(self) -> None:
        """At the end of a step. Call on all ranks.

        Raises:
            Preempted: when the run has been warned; it is saved.
            SaveFailed: when a checkpoint cannot be written.
        """
        self.saver.check()
        warned, time_is_up = self._ask() if self.state.loop.step >= self._ask_at else (0, 0)
        if warned:
            self.stop(warned)
        if time_is_up or self.saver.due(self.state.loop.step, self.state.metrics):
            self.save()

    def stop(self, signum: int) -> None:
        """Save, and end the run. Call on all ranks.

        Raises:
            Preempted: always.
        """
        self.save()
        self.saver.wait()
        raise Preempted(self.state.loop.step, signum, self.saver.keep_last > 0)

    def save(self) -> None:
        """Save the run as it stands, unless that is done already. Call on all ranks."""
        self.state.loop.progress.enter("save")
        self.state.loop.check_finite()
        before = self.saver.waited
        self.saver.save(
            lambda: self.state.snapshot(self.saver.best), self.state.loop.step, self.state.metrics
        )
        self.state.loop.meter.pause(self.saver.waited - before)

    def watched(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """An evaluation's micro-batches; the last when the run is warned.

        Raises:
            CutShort: on all ranks at the same micro-batch.
        """
        for number, batch in enumerate(batches):
            if number % ASK_EVERY == 0:
                (warned,) = self.control.highest(self._warned())
                if warned:
                    raise CutShort(warned)
            yield batch

    def _ask(self) -> tuple[int, int]:
        """Whether some rank is warned, and whether the clock asks for a checkpoint."""
        step, now = self.state.loop.step, time.monotonic()
        rate = (step - self._asked[0]) / max(now - self._asked[1], 1e-9)
        pause = 1 if self.control.group is None else int(rate * ASK_EVERY_S)
        pause = min(max(pause, 1), ASK_WITHIN)
        warned, time_is_up, shortest = self.control.highest(
            self._warned(), self._time_is_up(), -pause
        )
        self._asked, self._ask_at = (step, now), step - shortest
        return warned, time_is_up

    def _warned(self) -> int:
        return 0 if self.notice.asked is None else int(self.notice.asked)

    def _time_is_up(self) -> int:
        # One clock for all.
        return int(self.control.ranks.main and self.saver.time_is_up)
