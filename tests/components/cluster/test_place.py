"""A rank's place as others read it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from components.cluster.place import LAYOUT, Place, Seen, read_place


def seen(path: Path) -> Seen:
    found = read_place(path)
    assert found is not None
    return found


def test_a_place_begins_at_the_start(tmp_path: Path) -> None:
    before = time.monotonic()
    Place(tmp_path / "place")
    one = seen(tmp_path / "place")
    assert (one.step, one.phase, one.warm, one.pid) == (0, "start", False, os.getpid())
    assert before <= one.since <= time.monotonic()


def test_others_see_what_was_entered_last(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.enter("data", 7)
    first = seen(tmp_path / "place")
    place.enter("forward-backward", 7)
    second = seen(tmp_path / "place")
    assert (first.step, first.phase) == (7, "data")
    assert (second.step, second.phase) == (7, "forward-backward")
    assert second.since >= first.since


def test_it_is_warm_once_this_attempt_has_taken_a_step(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    told = []
    for phase, step in (
        ("evaluation", 200),  # of the attempt before
        ("data", 200),
        ("forward-backward", 200),
        ("save", 201),
    ):
        place.enter(phase, step)  # type: ignore[arg-type]
        told.append(seen(tmp_path / "place").warm)
    assert told == [False, False, False, True]


def test_what_an_earlier_process_has_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "place"
    first = Place(path)
    first.enter("save", 9)
    Place(path)
    first.enter("save", 10)  # writes into memory that nobody reads any more
    assert seen(path).phase == "start"


def test_no_place(tmp_path: Path) -> None:
    assert read_place(tmp_path / "place") is None
    (tmp_path / "place").write_bytes(b"torn"[: LAYOUT.size])
    assert read_place(tmp_path / "place") is None
    Place().enter("data", 1)  # for nobody but itself
    place = Place(tmp_path / "place")
    place.remove()
    assert not (tmp_path / "place").exists()
