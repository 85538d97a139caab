"""A store that stops to answer is waited for so long, and its questions queue no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from components.cluster.answering import Answering, Unanswered
from tests.programs import run_program


class Silent:
    """A store that keeps a question until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def check(self, keys: list[str]) -> bool:
        assert self.let_go.wait(60)
        return True


@pytest.fixture
def silent() -> Iterator[Silent]:
    store = Silent()
    yield store
    store.let_go.set()


def test_a_store_that_answers() -> None:
    store = Answering(dist.HashStore(), 60.0)
    store.set("a", "b")
    assert store.check(["a"])
    assert store.get("a") == b"b"
    assert store.add("n", 2) == 2


def test_a_store_that_does_not(silent: Silent) -> None:
    store = Answering(silent, 0.5)  # type: ignore[arg-type]
    with pytest.raises(Unanswered, match=r"no answer within 0\.5 s"):
        store.check(["a"])
    began = time.monotonic()
    for _ in range(20):  # who waits behind it has waited already
        with pytest.raises(Unanswered):
            store.check(["a"])
    assert time.monotonic() - began < 5.0


def test_one_that_answers_late_is_asked_again(silent: Silent) -> None:
    store = Answering(silent, 20.0)  # type: ignore[arg-type]
    first = store.put(lambda store: store.check(["a"]))
    assert not first.done()
    silent.let_go.set()
    assert store.check(["a"])
    assert first.done()


def test_an_error_is_the_askers() -> None:
    store = Answering(dist.HashStore(), 20.0)

    def question(store: dist.Store) -> None:
        raise dist.DistNetworkError("gone")

    with pytest.raises(dist.DistNetworkError, match="gone"):
        store.ask(question)


def test_a_store_that_nobody_asks_any_more_is_let_go() -> None:
    served = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    other = dist.TCPStore("127.0.0.1", served.port, is_master=False)
    asked = Answering(served, 20.0)
    asked.set("a", "b")
    del asked, served
    # Its server goes with it.
    deadline = time.monotonic() + 20
    while answers(other):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(store: dist.Store) -> bool:
    try:
        store.check(["a"])
    except dist.DistError:
        return False
    return True


@pytest.mark.parametrize("asked", ["while a store is asked", "once it has been", "never"])
def test_a_process_leaves_with_its_exit_code(asked: str) -> None:
    # A thread that comes back from C++ code when the interpreter has ended aborts the process.
    code = f"""
import atexit, datetime, sys, time
import torch.distributed as dist
from components.cluster.answering import Answering, leave
store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=datetime.timedelta(seconds=0.3))
atexit.register(print, "the end")
if {asked!r} != "never":
    answering = Answering(store, 5)
    answering.set("here", "yes")
if {asked!r} == "while a store is asked":
    answering.put(lambda store: store.get("never"))
    time.sleep(0.1)
print("left", end=" ")
leave(75)
"""
    done = run_program(code)
    assert (done.returncode, done.stdout) == (75, "left the end\n"), done.stderr
