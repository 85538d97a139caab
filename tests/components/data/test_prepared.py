"""Preparation: once per file system, whole or not at all, whatever happens to who does it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.data.prepared import prepare_once
from components.errors import ConfigError

context = multiprocessing.get_context("fork")


def count_and_build(log: Path, hold: Path | None = None) -> Callable[[Path], None]:
    """Notes one line in `log` for each build; waits until `hold` exists."""

    def build(directory: Path) -> None:
        with log.open("a") as file:
            file.write("built\n")
        (directory / "half").write_text("half")
        while hold is not None and not hold.exists():
            time.sleep(0.01)
        (directory / "data").write_text("whole")

    return build


def start(target: Callable[..., Any], *arguments: Any) -> Any:
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def wait_for(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.01)


def test_one_of_several_processes_builds_and_all_find_it(tmp_path: Path) -> None:
    log, hold, cache = tmp_path / "log", tmp_path / "hold", tmp_path / "cache" / "set"

    def rank() -> None:
        found = prepare_once(cache, count_and_build(log, hold))
        assert (found / "data").read_text() == "whole"

    processes = [start(rank) for _ in range(3)]
    wait_for(log)
    hold.touch()
    for process in processes:
        process.join(20)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "built\n"
    assert sorted(path.name for path in cache.iterdir()) == [".complete", "data", "half"]


def test_an_error_reaches_every_process_and_leaves_nothing(tmp_path: Path) -> None:
    cache, seen = tmp_path / "set", tmp_path / "seen"
    seen.mkdir()

    def rank(number: int) -> None:
        def build(directory: Path) -> None:
            (directory / "half").touch()
            raise OSError("disk on fire")

        try:
            prepare_once(cache, build)
        except OSError as error:
            (seen / str(number)).write_text(str(error))

    processes = [start(rank, number) for number in range(3)]
    for process in processes:
        process.join(20)
    assert sorted(path.read_text() for path in seen.iterdir()) == ["disk on fire"] * 3
    assert not cache.exists()
    assert not (tmp_path / ".set.unfinished").exists()


def test_who_is_killed_in_the_middle_is_replaced(tmp_path: Path) -> None:
    log, never, cache = tmp_path / "log", tmp_path / "never", tmp_path / "set"
    victim = start(prepare_once, cache, count_and_build(log, never))
    wait_for(tmp_path / ".set.unfinished" / "half")
    waiting = start(prepare_once, cache, count_and_build(log))
    os.kill(victim.pid, signal.SIGKILL)
    victim.join(20)
    waiting.join(20)
    assert waiting.exitcode == 0
    assert log.read_text() == "built\nbuilt\n"
    assert (cache / "data").read_text() == "whole"
    prepare_once(cache, count_and_build(log))
    assert log.read_text() == "built\nbuilt\n"


def test_a_directory_without_its_mark_is_built_again(tmp_path: Path) -> None:
    cache = tmp_path / "set"
    cache.mkdir()
    (cache / "data").write_text("torn")
    prepare_once(cache, count_and_build(tmp_path / "log"))
    assert (cache / "data").read_text() == "whole"


def test_an_unusable_cache_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"data\.cache_dir"):
        prepare_once(tmp_path / "file" / "set", lambda directory: None)
