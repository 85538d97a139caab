"""How often ranks ask each other whether to stop: after each step, or several short ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from components.cluster.preemption import Notice
from train import keeper
from train.keeper import ASK_WITHIN, Keeper


class Clock:
    """Time passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Control:
    """Two ranks, of which the other one proposes a pause of its own."""

    group = "both"
    ranks = SimpleNamespace(main=True)

    def __init__(self, others: int) -> None:
        self.others = others
        self.asked: list[int] = []
        self.loop: Any = None

    def highest(self, warned: int, time_is_up: int, shortest: int) -> list[int]:
        self.asked.append(self.loop.step)
        return [warned, time_is_up, max(shortest, -self.others)]


def asked_at(step_s: float, monkeypatch: pytest.MonkeyPatch, others: int = 100) -> list[int]:
    """The steps after which ranks ask, when each takes `step_s`."""
    clock, control = Clock(), Control(others)
    monkeypatch.setattr(keeper, "time", clock)
    loop = SimpleNamespace(step=0)
    control.loop = loop
    saver: Any = SimpleNamespace(check=lambda: None, due=lambda *_: False, time_is_up=False)
    state: Any = SimpleNamespace(loop=loop, metrics={})
    one = Keeper(saver, control, Notice(), state)  # type: ignore[arg-type]
    for step in range(1, 31):
        loop.step = step
        clock.now += step_s
        one.boundary()
    return control.asked


def test_after_each_step_that_takes_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_at(0.06, monkeypatch) == list(range(1, 31))


def test_after_several_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_at(0.0124, monkeypatch) == [1, 5, 9, 13, 17, 21, 25, 29]


def test_within_a_few_however_short(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_at(0.001, monkeypatch)
    assert asked == [1, 1 + ASK_WITHIN, 1 + 2 * ASK_WITHIN]


def test_the_slowest_rank_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_at(0.001, monkeypatch, others=15)[:3] == [1, 11, 21]
    assert asked_at(0.001, monkeypatch, others=2)[:4] == [1, 3, 5, 7]
