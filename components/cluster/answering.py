"""A store on another host that is asked no longer than it may take.

A question to a host that has gone without a word, or behind a cable that is cut, comes back only
when TCP gives up, after a quarter of an hour, and torch's own time-outs do not end it. Nor does
a signal: the thread that asks is in C code.
"""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar

import torch.distributed as dist

Answer = TypeVar("Answer")
THREAD = "store"
"""The name of a thread that asks."""

Asked = tuple[Future[Any], Callable[[dist.Store], Any]]


class Unanswered(dist.DistError):
    """The store did not answer in time."""


class Answering:
    """A store whose questions a thread asks, one after the other. For one thread that puts them.

    Args:
        store: that is asked.
        limit_s: how long it may take to answer. A question that waits behind one without an
            answer has been waiting as long as that one.
    """

    def __init__(self, store: dist.Store, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last: tuple[Future[Any], float] | None = None
        self._questions: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        asking = (store, self._questions)
        threading.Thread(target=_ask_all, args=asking, name=THREAD, daemon=True).start()

    def __del__(self) -> None:
        self._questions.put(None)

    def put(self, question: Callable[[dist.Store], Answer]) -> Future[Answer]:
        """Ask without waiting."""
        future: Future[Answer] = Future()
        waiting = self._last is not None and not self._last[0].done()
        since = self._last[1] if self._last is not None and waiting else time.monotonic()
        self._last = future, since
        self._questions.put((future, question))
        return future

    def ask(self, question: Callable[[dist.Store], Answer]) -> Answer:
        """Ask, and wait for the answer.

        Raises:
            Unanswered: when there is none in time.
            DistError: as the store does.
        """
        future = self.put(question)
        assert self._last is not None
        try:
            return future.result(max(0.0, self._last[1] + self._limit_s - time.monotonic()))
        except TimeoutError:
            raise Unanswered(f"no answer within {self._limit_s:g} s") from None

    def check(self, keys: list[str]) -> bool:
        return self.ask(lambda store: bool(store.check(keys)))

    def get(self, key: str) -> bytes:
        return self.ask(lambda store: bytes(store.get(key)))

    def set(self, key: str, value: str) -> None:
        self.ask(lambda store: store.set(key, value))

    def add(self, key: str, amount: int) -> int:
        return self.ask(lambda store: int(store.add(key, amount)))


def _ask_all(store: dist.Store, questions: queue.SimpleQueue[Asked | None]) -> None:
    while (asked := questions.get()) is not None:
        future, question = asked
        try:
            future.set_result(question(store))
        except BaseException as error:
            future.set_exception(error)
        del asked, future, question


def leave(code: int) -> NoReturn:
    """End this process with an exit code, as `sys.exit`, and also while a store is asked.

    Python ends a thread that comes back from C++ code too late by unwinding it, which C++ takes
    for an error: it aborts the process, whose exit code is lost.
    """
    if any(thread.name == THREAD for thread in threading.enumerate()):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
