"""What counts as one warning."""

from __future__ import annotations

import os
import signal

import pytest

from components.cluster import preemption
from components.cluster.preemption import Notice
from components.cluster.signals import WARNING, Interrupted


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that a Notice reads, to be set."""
    now = [100.0]
    monkeypatch.setattr(preemption.time, "monotonic", lambda: now[0])
    return now


def test_signals_close_together_are_one_warning(clock: list[float]) -> None:
    notice = Notice()
    assert notice.asked is None
    assert not notice.warn(signal.SIGUSR1)
    clock[0] += 0.9
    assert not notice.warn(signal.SIGTERM)
    clock[0] += 0.2
    assert notice.warn(signal.SIGTERM)
    assert notice.asked == signal.SIGUSR1


def test_a_rank_only_takes_note() -> None:
    before = {number: signal.getsignal(number) for number in WARNING}
    notice = Notice()
    try:
        notice.install()
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert notice.asked == signal.SIGUSR2


def test_a_controller_ends_at_the_second(clock: list[float]) -> None:
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    notice = Notice()
    try:
        with notice.heeded():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            clock[0] += 2
            with pytest.raises(Interrupted) as stop:
                os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.value.signum == signal.SIGUSR1
        assert notice.asked == signal.SIGTERM
        assert all(signal.getsignal(number) is signal.SIG_IGN for number in WARNING)
    finally:
        for number, handler in before.items():
            if number not in (signal.SIGKILL, signal.SIGSTOP) and handler is not None:
                signal.signal(number, handler)


def test_without_a_warning_everything_is_as_before() -> None:
    before = {number: signal.getsignal(number) for number in WARNING}
    with Notice().heeded():
        pass
    assert {number: signal.getsignal(number) for number in WARNING} == before
