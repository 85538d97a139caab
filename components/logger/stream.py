"""The user's terminal (or pipe) as this process sees it: one writer for all."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import TextIO

DEFAULT_WIDTH = 80

ERASE = "\r\x1b[2K"
"""Back to the start of the terminal's line, and clear it."""


class ConsoleStream(io.TextIOBase):
    """A text stream with an optional live last line, that never fails.

    What is written appears in whole lines, above the live line. A reader that
    went away (`| head`) must not end training: after the first error all
    output is dropped.

    Args:
        file: where the text goes.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._gone = False
        self._lock = threading.RLock()
        self._live: str | None = None
        self._partial = ""

    def write(self, text: str) -> int:
        with self._lock:
            above, newline, self._partial = (self._partial + text).rpartition("\n")
            if newline:
                erase, live = (ERASE, self._live) if self._live is not None else ("", "")
                self._put(f"{erase}{above}\n{live}")
        return len(text)

    def flush(self) -> None:
        """Show a line that has no end yet, unless the live line stands in its place."""
        with self._lock:
            if self._live is None and self._partial:
                self._put(self._partial)
                self._partial = ""

    def live(self, line: str | None) -> None:
        """Show `line` below all else in place of the last one; None leaves it and ends it.

        Only for a terminal. The line must be shorter than `width` columns: what
        wraps cannot be erased.
        """
        with self._lock:
            if line is not None:
                self._put(ERASE + line)
            elif self._live is not None:
                self._put("\n")
            self._live = line

    def _put(self, text: str) -> None:
        """One write, so that lines of several processes do not mix."""
        if not self._gone:
            try:
                self._file.write(text)
                self._file.flush()
            except (OSError, ValueError):
                self._gone = True

    @property
    def width(self) -> int:
        """Columns of the terminal; 80 where there is none."""
        try:
            return os.get_terminal_size(self._file.fileno()).columns or DEFAULT_WIDTH
        except (OSError, ValueError):
            return DEFAULT_WIDTH

    def release(self) -> None:
        """Close the file; later text is dropped."""
        with self._lock:
            self._gone = True
            self._file.close()

    def isatty(self) -> bool:
        return not self._file.closed and self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._file.encoding or "utf-8"


def unfailing_streams() -> None:
    """From now on prints of this process cannot fail, whatever its caller has closed."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # Takes the lowest free number, which is this one; else a data file might get it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout, sys.stderr = (
        ConsoleStream(stream or open(os.devnull, "w"))  # noqa: SIM115
        for stream in (sys.stdout, sys.stderr)
    )
