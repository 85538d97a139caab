"""A warning that this process is to end soon, and how training heeds it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from components.cluster.signals import HEEDED, WARNING, Interrupted, ignore

PREEMPTED = 75
"""Exit code of a run that can go on later; the shell's EX_TEMPFAIL, so that schedulers requeue."""

REPEAT_S = 1.0
"""Signals this close to the first are the same warning: schedulers signal every process, and so
does whoever started it."""


class Preempted(Exception):
    """Training has ended early, as it was warned to.

    Args:
        step: steps taken.
        signum: the signal that warned.
        saved: whether the run can go on from that step.
    """

    def __init__(self, step: int, signum: int, saved: bool) -> None:
        saved_words = "which is saved" if saved else "and nothing is saved (checkpoint.keep_last=0)"
        super().__init__(f"stopped by {signal.Signals(signum).name} at step {step}, {saved_words}")
        self.step = step
        self.signum = signum


@dataclass
class Notice:
    """Whether this process has been warned.

    Other ranks know nothing of it: that all end at the same step is for them to agree.

    Attributes:
        asked: the signal that warned first; None as long as there was none.
    """

    asked: signal.Signals | None = None
    _since: float = 0.0

    def warn(self, signum: int) -> bool:
        """Take note of a signal; whether it is a second warning."""
        now = time.monotonic()
        if self.asked is None:
            self.asked, self._since = signal.Signals(signum), now
        return now - self._since > REPEAT_S

    def install(self) -> None:
        """From now on signals of `WARNING` do nothing to this process but set `asked`.

        For a rank whose controller counts warnings. Call in the main thread.
        """
        for number in WARNING:
            signal.signal(number, lambda signum, frame: self._note(signum))

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Inside, a signal of `WARNING` sets `asked`, and a second one raises Interrupted.

        After a warning further ones are ignored: what is left to do then is bounded. For a
        controller; call in the main thread.
        """

        def heed(signum: int, frame: object) -> None:
            if self.warn(signum):
                ignore(HEEDED)
                raise Interrupted(signum)

        before = {number: signal.signal(number, heed) for number in WARNING}
        try:
            yield
        finally:
            for number, handler in before.items():
                if signal.getsignal(number) is heed:
                    signal.signal(number, signal.SIG_IGN if self.asked else handler)

    def _note(self, signum: int) -> None:
        self.warn(signum)
