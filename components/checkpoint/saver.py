"""Saves one run: when it is due, in the foreground or beside training, and tidies up after."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from components.checkpoint import folders
from components.checkpoint.snapshot import Snapshot, save
from components.cluster.control import Control
from components.errors import ConfigError

log = logging.getLogger(__name__)

Best = list[tuple[float, int]]
"""(metric, step) of the best checkpoints, the best first."""


class Saver:
    """Writes a run's checkpoints. All methods are called on all ranks.

    Args:
        control: of this saver's own where it writes in the background.
        every_steps, every_minutes: None does not save by it; both None leave `save` to callers.
        keep_last: 0 writes none.
        lowest: whether the lowest metric is the best.
        may_commit: called on the main rank before a checkpoint gets its name; may raise.

    Attributes:
        best: the best so far.
        saved: the step of the last checkpoint that was begun in this attempt.
        waited: seconds that training has stood still for checkpoints.
    """

    def __init__(
        self,
        folder: Path,
        control: Control,
        *,
        every_steps: int | None,
        every_minutes: float | None,
        keep_last: int,
        keep_best: int,
        best_metric: str,
        lowest: bool,
        background: bool,
        may_commit: Callable[[], None],
    ) -> None:
        self.folder = folder
        self.control = control
        self.every_steps = every_steps
        self.every_s = None if every_minutes is None else 60 * every_minutes
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.best_metric = best_metric
        self.lowest = lowest
        self.background = background
        self.may_commit = may_commit
        self.best: Best = []
        self.saved: int | None = None
        self.waited = 0.0
        self._last = time.monotonic()
        self._writing: Thread | None = None
        self._error: BaseException | None = None

    @property
    def time_is_up(self) -> bool:
        """Whether this rank's clock asks for a checkpoint. Ranks have to agree on it."""
        return self.every_s is not None and time.monotonic() - self._last >= self.every_s

    def due(self, step: int, metrics: dict[str, float]) -> bool:
        """Whether the step asks for a checkpoint; alike on all ranks.

        Args:
            metrics: of the evaluation at this step; empty without one.

        Raises:
            ConfigError: when the metric to judge by is not among them.
        """
        if not self.keep_last:
            return False
        if self.keep_best and metrics and self.best_metric not in metrics:
            raise ConfigError(
                f"checkpoint.best_metric={self.best_metric} is none of the evaluation's metrics: "
                f"{', '.join(metrics)}. Take one of these."
            )
        by_step = self.every_steps is not None and step % self.every_steps == 0
        return by_step or step in (kept for _, kept in self._with(step, metrics))

    def _with(self, step: int, metrics: dict[str, float]) -> Best:
        """The best so far, this step's metrics among them."""
        known = [entry for entry in self.best if entry[1] != step]
        if self.best_metric in metrics:
            known.append((metrics[self.best_metric], step))
        known.sort(key=lambda entry: (entry[0] if self.lowest else -entry[0], entry[1]))
        return known[: self.keep_best]

    def save(self, make: Callable[[], Snapshot], step: int, metrics: dict[str, float]) -> None:
        """Save the run as it stands, unless that is done already.

        Args:
            make: gives this rank's part.

        Raises:
            SaveFailed: when this checkpoint, or the one still being written, cannot be.
        """
        if step == self.saved or not self.keep_last:
            return
        start = time.monotonic()
        self.wait()
        self.best = self._with(step, metrics)
        keep = [kept for _, kept in self.best]
        snapshot = make()
        if self.background:
            snapshot = snapshot.copied()
            self._writing = Thread(target=self._write_aside, args=(snapshot, keep), name="saver")
            self._writing.start()
        else:
            self._write(snapshot, keep)
        self.saved = step
        self._last = time.monotonic()
        stall = self._last - start
        self.waited += stall
        beside = ", the rest beside training" if self.background else ""
        log.info("checkpoint at step %d: training waited %.2f s%s", step, stall, beside)

    def wait(self) -> None:
        """Wait for the checkpoint that is being written.

        Raises:
            SaveFailed: when it could not be.
        """
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        self.check()

    def check(self) -> None:
        """Raise what went wrong beside training, if it did."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write_aside(self, snapshot: Snapshot, keep: list[int]) -> None:
        try:
            self._write(snapshot, keep)
        except BaseException as error:
            self._error = error

    def _write(self, snapshot: Snapshot, keep: list[int]) -> None:
        save(self.folder, snapshot, self.control, self.may_commit)
        if self.control.ranks.main:
            folders.keep(self.folder, self.keep_last, keep)
