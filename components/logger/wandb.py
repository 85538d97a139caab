"""Weights & Biases, kept at arm's length from training.

One thread of the sink's own does everything that may wait (starting the
service, a server that does not answer, uploading): the training loop only puts
records into a queue, and nothing here can hold it up. What W&B loses when it
fails stands in `metrics.jsonl` all the same.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, get_args

from components.errors import ConfigError
from components.logger.base import Logger, RunInfo
from components.logger.jsonl import plain
from components.logger.secrets import without_secrets

if TYPE_CHECKING:
    from wandb import Run

log = logging.getLogger(__name__)

Mode = Literal["online", "offline", "disabled"]

EXIT_CODES = {"completed": 0, "failed": 1, "refused": 2, "preempted": 75, "interrupted": 130}
"""The exit code that W&B is told, by status: the same that the process ends with."""

QUEUE_SIZE = 10_000
"""Records that may wait for W&B before it counts as stuck and is switched off."""

FULL_S = 0.01
"""Seconds between two looks whether there is room again."""

SHUTDOWN_S = 5.0
"""Seconds beyond the upload that W&B's service has for ending itself."""

LAUNCH_S = 5.0
"""Seconds that a fork of this process waits at most for W&B's service to be launched."""

_launched = threading.Event()
_launched.set()
# A process forked meanwhile, as data workers are, would inherit the pipe by which the launching
# thread learns that the service runs, and that thread would wait until it ends.
os.register_at_fork(before=lambda: _launched.wait(LAUNCH_S))


class WandbLogger(Logger):
    """Mirrors the records to a W&B run.

    Args:
        mode: `offline` writes into `<run folder>/wandb` for a later `wandb sync`;
            `online` sends as well; `disabled` does not even import wandb.
        project, entity: where the run belongs.
        group: None: the group of the run's `RunInfo`.
        tags: in addition to the run's precision, parallel and cluster.
        init_timeout_s: seconds that `online` waits for the server before the run
            goes offline, with a warning.
        finish_timeout_s: seconds that the end of a run waits for the upload.

    Raises:
        ConfigError: an unknown mode or a time-out that is not above zero.
    """

    def __init__(
        self,
        mode: Mode = "offline",
        project: str = "shardlab",
        entity: str | None = None,
        group: str | None = None,
        tags: list[str] | None = None,
        init_timeout_s: float = 30.0,
        finish_timeout_s: float = 60.0,
    ) -> None:
        if mode not in get_args(Mode):
            raise ConfigError(
                f"logger.wandb.mode={mode} is unknown. Take one of {', '.join(get_args(Mode))}."
            )
        for key, value in (
            ("init_timeout_s", init_timeout_s),
            ("finish_timeout_s", finish_timeout_s),
        ):
            if value <= 0:
                raise ConfigError(
                    f"logger.wandb.{key}={value} must be above 0 seconds: "
                    "without an end a lost network would hold up the run."
                )
        self.mode: Mode = mode
        self.project = project
        self.entity = entity
        self.group = group
        self.tags = list(tags or [])
        self.init_timeout_s = init_timeout_s
        self.finish_timeout_s = finish_timeout_s

        self._queue: queue.Queue[dict[str, Any] | _Finish] = queue.Queue(QUEUE_SIZE)
        self._thread: threading.Thread | None = None
        self._service: subprocess.Popen[bytes] | None = None
        self._error: Exception | None = None
        self._deadline = 0.0

    @property
    def preload(self) -> tuple[str, ...]:
        return () if self.mode == "disabled" else ("wandb",)

    def start(self, info: RunInfo) -> None:
        if self.mode == "disabled":
            return
        # On this thread: two threads importing at once can see half a module.
        with _no_error_reporting():
            import wandb  # noqa: F401
        # Offline may have to follow online, and W&B's service has to come up first.
        self._deadline = monotonic() + 2 * self.init_timeout_s
        _launched.clear()
        self._thread = threading.Thread(
            target=self._serve, args=(info,), name="shardlab-wandb", daemon=True
        )
        self._thread.start()

    def log(self, record: dict[str, Any]) -> None:
        if self._thread is None:
            return
        if self._error is not None:
            raise self._error
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._kill_service()
            raise TimeoutError(f"W&B has not taken the last {QUEUE_SIZE} records") from None

    def log_patiently(self, record: dict[str, Any]) -> None:
        """Take one record, waiting for room: for those who have no training to hold up."""
        if self._thread is not None:
            self._wait_for_room(self._thread, math.inf)
        self.log(record)

    def _wait_for_room(self, thread: threading.Thread, end: float) -> None:
        """Until a record can be put, its taker is gone, or the clock is at `end`."""
        while self._queue.full() and thread.is_alive() and monotonic() < end:
            time.sleep(FULL_S)

    def finish(self, status: str, summary: dict[str, Any]) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        end = max(self._deadline, monotonic()) + self.finish_timeout_s + SHUTDOWN_S
        self._wait_for_room(thread, end)
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(_Finish(status, summary))
        thread.join(max(0.0, end - monotonic()))
        if thread.is_alive():
            self._kill_service()
            thread.join(SHUTDOWN_S)
            raise TimeoutError(
                f"W&B did not end within logger.wandb.finish_timeout_s={self.finish_timeout_s:g}"
            )
        if self._error is not None:
            raise self._error

    # All below runs on the sink's own thread, but for _kill_service.

    def _serve(self, info: RunInfo) -> None:
        """Start the run, pass records on until told to finish, and clear up."""
        import wandb

        try:
            with _no_error_reporting(), _own_exit_hooks():
                run = self._init(info)
            self._deadline = 0.0
            with contextlib.suppress(AttributeError):
                # No public way leads to it. Without it, a service that hangs could
                # not be ended, and its exit hook would keep this process for ever.
                self._service = wandb.setup()._connection._proc._process  # type: ignore[union-attr]
            run.define_metric("step")
            run.define_metric("*", step_metric="step")
            while not isinstance(item := self._queue.get(), _Finish):
                run.log(item)
            self._end(run, item.status, item.summary)
        except Exception as error:
            self._error = error
        finally:
            _launched.set()
            self._deadline = 0.0
            # SystemExit: how teardown tells that the service had been killed.
            with contextlib.suppress(Exception, SystemExit):
                wandb.teardown()

    def _about(self, info: RunInfo) -> dict[str, Any]:
        """What tells the run from others of its group."""
        cell = info.cell
        return {
            "job_type": f"{cell['parallel']}-{cell['precision']}",
            "tags": [*self.tags, *(str(cell[key]) for key in ("precision", "parallel", "cluster"))],
            "config": {**without_secrets(info.config), "cell": cell},
        }

    def _end(self, run: Run, status: str, summary: dict[str, Any]) -> None:
        """End the W&B run."""
        code = EXIT_CODES.get(status, 1)
        run.summary.update({**plain(summary), "status": status, "exit_code": code})
        run.finish(exit_code=code)

    def _init(self, info: RunInfo) -> Run:
        """Begin the W&B run; offline where online cannot be."""
        import wandb

        _tell_of_earlier_segments(info, self.mode)
        if self.mode == "offline":
            return self._init_as("offline", info)
        begun = monotonic()
        try:
            return self._init_as("online", info)
        except Exception as error:
            log.warning(
                "W&B could not go online (%s: %s; after %.0f s). This run is recorded offline in "
                "%s instead of logger.wandb.mode=online; upload it later with `wandb sync`.",
                type(error).__name__,
                error,
                monotonic() - begun,
                info.folder / "wandb",
            )
            # The service that failed still holds the run's id.
            with contextlib.suppress(Exception, SystemExit):
                wandb.teardown()
            return self._init_as("offline", info)

    def _init_as(self, mode: Mode, info: RunInfo) -> Run:
        import wandb

        try:
            # Logging in has no settings of its own: it takes those of the session.
            wandb.setup(settings=wandb.Settings(silent=True))
        finally:
            _launched.set()
        return wandb.init(
            **self._about(info),
            mode=mode,
            project=self.project,
            entity=self.entity,
            dir=str(info.folder),
            id=info.run_id,
            name=info.name,
            group=self.group or info.group,
            resume="allow" if mode == "online" else None,
            reinit="finish_previous",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                save_code=False,
                login_timeout=self.init_timeout_s,
                init_timeout=self.init_timeout_s,
                finish_timeout=self.finish_timeout_s,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        )

    def _kill_service(self) -> None:
        """End W&B's service process, which fails every call that waits for it."""
        if self._service is not None:
            self._service.kill()


class _Finish:
    """The last item of the queue."""

    def __init__(self, status: str, summary: dict[str, Any]) -> None:
        self.status = status
        self.summary = summary


@contextlib.contextmanager
def _no_error_reporting() -> Iterator[None]:
    """W&B's own error reports switched off, which only its environment variable can do."""
    key = "WANDB_ERROR_REPORTING"
    if key in os.environ:
        yield
        return
    os.environ[key] = "false"
    try:
        yield
    finally:
        os.environ.pop(key, None)


@contextlib.contextmanager
def _own_exit_hooks() -> Iterator[None]:
    """Undo W&B's hold on `sys.exit` and `sys.excepthook`: it prints tracebacks a second time."""
    hooks = sys.exit, sys.excepthook
    try:
        yield
    finally:
        sys.exit, sys.excepthook = hooks


def _tell_of_earlier_segments(info: RunInfo, mode: Mode) -> None:
    """Say what W&B cannot do: continue an offline run. Each attempt leaves a segment."""
    earlier: list[Path] = sorted((info.folder / "wandb").glob(f"offline-run-*-{info.run_id}"))
    if earlier:
        log.info(
            "W&B cannot continue an offline run: %d earlier offline segment(s) of this run stay in "
            "%s, %s, and `wandb sync` of one may replace another. metrics.jsonl holds the whole "
            "run; one W&B run with each step once comes of: python -m train.replay %s",
            len(earlier),
            info.folder / "wandb",
            "this attempt adds one" if mode == "offline" else "and are not in the online run",
            info.folder,
        )
