"""Signals that ask this process to end, and what it does about them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGHUP)
"""The user's: end at once. SIGQUIT is left alone, the terminal's way out when all else fails."""

WARNING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""A scheduler's: the end is near."""

HEEDED = (*ENDING, *WARNING)


class Interrupted(BaseException):
    """A signal asks this process to end. No Exception, so that nobody takes it for a job's own."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum

    @property
    def warning(self) -> bool:
        """Whether a scheduler sends this signal, rather than the user."""
        return self.signum in WARNING

    @property
    def exit_code(self) -> int:
        """As shells write it: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + self.signum


def raise_interrupts() -> None:
    """From now on the first signal of `HEEDED` raises Interrupted in the main thread.

    Later ones are ignored: what is left to do then is bounded, and must be done.
    """

    def interrupt(signum: int, frame: object) -> None:
        global _raised
        ignore(HEEDED)
        _raised = signum
        raise Interrupted(signum)

    for number in _heeded():
        signal.signal(number, interrupt)


def raise_missed() -> None:
    """Raise Interrupted again if a signal has come. What a handler raises within an import may get
    lost there: C code that tries to import something goes on without it.
    """
    if _raised is not None:
        raise Interrupted(_raised)


_raised: int | None = None


def call_on_signal(act: Callable[[int], None]) -> None:
    """From now on a signal of `HEEDED` calls `act(signum)` in a thread of its own.

    A Python handler would have to wait until the main thread comes back from C code,
    and a rank whose peers are gone may never come back from a collective. A second
    call replaces `act`.
    """
    global _act
    first, _act = _act is None, act
    if not first:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # The interpreter writes each signal's number here at once, whatever the main thread does.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _heeded():
        signal.signal(number, lambda signum, frame: None)

    def watch() -> None:
        while True:
            signum = os.read(reader, 1)[0]
            if signum in HEEDED and _act is not None:
                _act(signum)

    threading.Thread(target=watch, name="signal-watch", daemon=True).start()


_act: Callable[[int], None] | None = None


def _heeded() -> Iterator[signal.Signals]:
    # What was ignored at the start stays so: nohup means it, and so does a shell's `&`.
    return (number for number in HEEDED if signal.getsignal(number) is not signal.SIG_IGN)


def ignore(numbers: Sequence[signal.Signals]) -> None:
    """From now on, also while the interpreter ends.

    A handler that does nothing comes first: a signal that is on its way already finds it, where
    Python would complain of finding none.
    """
    for handler in (_pass, signal.SIG_IGN):
        for number in numbers:
            signal.signal(number, handler)


def _pass(signum: int, frame: object) -> None:
    """Nothing."""


@contextmanager
def held(*numbers: signal.Signals) -> Iterator[None]:
    """Inside, these signals wait: they are acted on at its end. Processes that are started there
    have them blocked until they unblock them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
