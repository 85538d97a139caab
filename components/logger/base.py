"""What a sink of a run's records is, and the fan-out over several of them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunInfo:
    """What a sink is told about the run when it starts.

    Attributes:
        folder: the run's folder.
        run_id: the run's identity, the same after a requeue.
        name: the run's name for readers.
        config: the whole config as plain, resolved containers.
        cell: `precision`, `parallel` and `cluster` by name, and `world_size`.
        group: the sweep that the run belongs to, if any.
        steps: optimizer steps that the run will take.
    """

    folder: Path
    run_id: str
    name: str
    config: dict[str, Any]
    cell: dict[str, Any]
    group: str | None
    steps: int


class Logger(ABC):
    """A sink for rank 0's records. Other ranks have none.

    A record is one line of `metrics.jsonl`: always `step` and `time`; training
    keys as in `train/loss`, `lr`, `step_time_s`; evaluation keys as in `val/loss`.

    Attributes:
        essential: whether the run may not go on without this sink.
    """

    essential: ClassVar[bool] = False

    @property
    def preload(self) -> tuple[str, ...]:
        """Modules that `start` needs and that are worth importing before ranks are forked."""
        return ()

    @abstractmethod
    def start(self, info: RunInfo) -> None:
        """Open the sink. Called once, before the first record."""

    @abstractmethod
    def log(self, record: dict[str, Any]) -> None:
        """Take one record. Called between steps: must return at once."""

    @abstractmethod
    def finish(self, status: str, summary: dict[str, Any]) -> None:
        """Close the sink.

        Args:
            status: how the run ended, as in `status.json`: `completed`, `failed`, `preempted`.
            summary: what stands in `summary.json`.
        """


class Loggers:
    """All sinks of a run, called in turn.

    The first exception of a sink that is not essential becomes one warning and
    switches that sink off. Those of an essential sink propagate, after every
    other sink has had its turn.
    """

    def __init__(self, sinks: Sequence[Logger]) -> None:
        self._sinks = list(sinks)

    def start(self, info: RunInfo) -> None:
        """Start every sink."""
        self._each(lambda sink: sink.start(info))

    def log(self, record: dict[str, Any]) -> None:
        """Pass one record to every sink."""
        self._each(lambda sink: sink.log(record))

    def finish(self, status: str, summary: dict[str, Any]) -> None:
        """Finish every sink."""
        self._each(lambda sink: sink.finish(status, summary))

    def _each(self, call: Callable[[Logger], None]) -> None:
        error: Exception | None = None
        for sink in list(self._sinks):
            try:
                call(sink)
            except Exception as caught:
                if sink.essential:
                    error = error or caught
                    continue
                self._sinks.remove(sink)
                log.warning(
                    "%s is switched off for the rest of the run (%s: %s); training goes on",
                    type(sink).__name__,
                    type(caught).__name__,
                    caught,
                )
        if error is not None:
            raise error
