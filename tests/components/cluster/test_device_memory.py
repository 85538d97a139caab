"""The memory that ranks have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from components.cluster.device_memory import free_host_memory, host_memory, rank_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _group(root: Path, line: str, **limits: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)
    for path, text in limits.items():
        place = root / "sys/fs/cgroup" / path.replace("__", "/")
        place.mkdir(parents=True, exist_ok=True)
        name = "memory.limit_in_bytes" if path.startswith("memory") else "memory.max"
        (place / name).write_text(text)


def test_a_machine_without_groups_is_all_there_is(tmp_path: Path) -> None:
    assert host_memory(tmp_path) == MACHINE


@pytest.mark.parametrize(("own", "around"), [("1000000\n", "max\n"), ("max\n", "1000000\n")])
def test_the_least_of_a_group_and_those_around_it(tmp_path: Path, own: str, around: str) -> None:
    _group(tmp_path, "0::/user/job\n", user__job=own, user=around)
    assert host_memory(tmp_path) == 1_000_000


def test_a_group_of_version_one(tmp_path: Path) -> None:
    _group(tmp_path, "4:memory,cpu:/job\n", memory__job="2000000\n")
    assert host_memory(tmp_path) == 2_000_000


def test_ranks_of_a_machine_share_it() -> None:
    assert rank_memory("cpu", 4) == host_memory() // 4


def test_what_is_free_now(tmp_path: Path) -> None:
    assert free_host_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    text = "MemTotal:       24000000 kB\nMemFree:          500000 kB\nMemAvailable:    2000000 kB\n"
    (tmp_path / "proc/meminfo").write_text(text)
    assert free_host_memory(tmp_path) == 2_048_000_000
    assert 0 < (free_host_memory() or 0) < MACHINE
