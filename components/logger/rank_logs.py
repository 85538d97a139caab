"""Which rank's words go where.

Every rank keeps all of its own in `logs/rank-N.log`: prints, log records,
warnings, and what C++ code writes to the file descriptors. The console gets
rank 0's prints and info records, and the warnings and errors of all ranks,
marked with the rank.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import sys
from pathlib import Path
from typing import TextIO, cast

from components.logger.stream import ERASE, ConsoleStream

QUIET_LIBRARIES = frozenset({"DeepSpeed", "deepspeed", "torch", "wandb", "urllib3", "filelock"})
"""Their info records go to the rank's file alone."""

OWN_HANDLERS = ("DeepSpeed", "transformers")
"""Loggers to which their library, once imported, attaches a handler of its own."""


class RankLogs:
    """Redirects this process's output for as long as it lives, or until `restore`.

    Make it after `import torch`, whose loggers bring their own handlers.

    Args:
        folder: the run's folder; `logs/rank-N.log` is appended to.
        rank: this process's rank.

    Attributes:
        console: the original standard output, whatever became of descriptor 1.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        path = folder / "logs" / f"rank-{rank}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved_fds = (os.dup(1), os.dup(2))
        self._saved_streams = (sys.stdout, sys.stderr)

        # Unbuffered: a pipe that closes leaves nothing behind to fail at exit.
        raw = os.fdopen(os.dup(1), "wb", buffering=0)
        self.console = ConsoleStream(
            io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True)
        )
        self._file = path.open("a", buffering=1, encoding="utf-8", errors="replace")
        os.dup2(self._file.fileno(), 1)
        os.dup2(self._file.fileno(), 2)
        out = _Tee(self._file, self.console) if rank == 0 else self._file
        sys.stdout = sys.stderr = cast(TextIO, out)

        self._saved_faulthandler = faulthandler.is_enabled()
        faulthandler.enable(file=self._file)
        self._take_over_logging(rank)

    def _take_over_logging(self, rank: int) -> None:
        """The root's handlers, once; library loggers lose theirs and propagate instead."""
        root = logging.getLogger()
        self._saved_root = (root.handlers[:], root.level)
        to_file = logging.StreamHandler(self._file)
        to_file.setFormatter(
            logging.Formatter(f"%(asctime)s %(levelname)s [rank {rank}] %(name)s: %(message)s")
        )
        to_console = _ConsoleHandler(self.console, rank)
        to_console.setLevel(logging.INFO if rank == 0 else logging.WARNING)
        root.handlers = [to_file, to_console]
        root.setLevel(logging.INFO)

        self._saved_loggers = []
        for logger in {*_loggers_that_print(), *map(logging.getLogger, OWN_HANDLERS)}:
            self._saved_loggers.append((logger, type(logger), logger.handlers[:], logger.propagate))
            logger.handlers = [h for h in logger.handlers if type(h) is not logging.StreamHandler]
            # The class, because a library imported later would undo what is set here.
            logger.__class__ = _Propagating
        logging.captureWarnings(True)

    def restore(self) -> None:
        """Put everything back. For tests: a worker process ends with its redirection."""
        logging.captureWarnings(False)
        for logger, kind, handlers, propagate in self._saved_loggers:
            logger.__class__ = kind
            logger.handlers, logger.propagate = handlers, propagate
        root = logging.getLogger()
        root.handlers, level = self._saved_root
        root.setLevel(level)
        sys.stdout, sys.stderr = self._saved_streams
        for fd, saved in zip((1, 2), self._saved_fds, strict=True):
            os.dup2(saved, fd)
            os.close(saved)
        faulthandler.disable()
        if self._saved_faulthandler:
            faulthandler.enable(file=2)
        self._file.close()
        self.console.release()


class _Tee(io.TextIOBase):
    """Rank 0's standard output and error: its file, and the console."""

    def __init__(self, file: TextIO, console: ConsoleStream) -> None:
        self._file = file
        self._console = console

    def write(self, text: str) -> int:
        self._console.write(text)
        return self._file.write(text)

    def flush(self) -> None:
        self._console.flush()
        if not self._file.closed:
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


class _ConsoleHandler(logging.Handler):
    """Log records for the console: one write a record, warnings marked with the rank."""

    def __init__(self, console: ConsoleStream, rank: int) -> None:
        super().__init__()
        self._console = console
        self._rank = rank
        # Another rank's line may meet rank 0's progress bar: it takes the bar's place,
        # and rank 0 draws the bar anew below it.
        self._erase = ERASE if rank != 0 and console.isatty() else ""

    def filter(self, record: logging.LogRecord) -> bool:
        library = record.name.partition(".")[0]
        return record.levelno >= logging.WARNING or library not in QUIET_LIBRARIES

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record).rstrip()
            if record.levelno >= logging.WARNING:
                text = f"[rank {self._rank}] {record.levelname}: {text}"
            self._console.write(f"{self._erase}{text}\n")
        except Exception:
            self.handleError(record)


class _Propagating(logging.Logger):
    """A logger that leaves output to the root, whatever its library tells it."""

    @property
    def propagate(self) -> bool:
        return True

    @propagate.setter
    def propagate(self, value: bool) -> None:
        pass

    def addHandler(self, hdlr: logging.Handler) -> None:
        if type(hdlr) is not logging.StreamHandler:
            super().addHandler(hdlr)


def _loggers_that_print() -> list[logging.Logger]:
    """Loggers below the root that write to a stream by a handler of their own."""
    return [
        logger
        for logger in logging.Logger.manager.loggerDict.values()
        if isinstance(logger, logging.Logger)
        and any(type(handler) is logging.StreamHandler for handler in logger.handlers)
    ]
