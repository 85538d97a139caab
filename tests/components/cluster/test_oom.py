"""The kernel's own counts of those whom it has killed for want of memory."""

from __future__ import annotations

from pathlib import Path

from components.cluster.oom import oom_kills


def _write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_group_of_version_two(tmp_path: Path) -> None:
    _write(tmp_path, "proc/self/cgroup", "0::/user/job\n")
    events = "low 0\nhigh 3\nmax 9\noom 2\noom_kill 2\noom_group_kill 7\n"
    _write(tmp_path, "sys/fs/cgroup/user/job/memory.events", events)
    assert oom_kills(tmp_path) == 2


def test_a_group_of_version_one(tmp_path: Path) -> None:
    _write(tmp_path, "proc/self/cgroup", "5:devices:/x\n4:memory,cpu:/job\n0::/\n")
    told = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"
    _write(tmp_path, "sys/fs/cgroup/memory/job/memory.oom_control", told)
    assert oom_kills(tmp_path) == 4


def test_the_machine_where_there_is_no_group(tmp_path: Path) -> None:
    _write(tmp_path, "proc/vmstat", "nr_free_pages 12\noom_kill 3\ndrop_pagecache 1\n")
    assert oom_kills(tmp_path) == 3


def test_a_kernel_that_counts_nothing(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) == 0


def test_this_machine() -> None:
    assert oom_kills() >= 0
