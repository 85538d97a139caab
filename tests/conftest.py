"""A test leaves the process as it found it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from glob import glob
from multiprocessing import forkserver, resource_tracker

import pytest

from tests import warm
from tests.cluster.hosts import missing

NOT_OURS = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_", "KMP_", "PYTORCH_NVML_")
"""How variables begin that pytest sets, and the imports of torch, scikit-learn and DeepSpeed."""

GRACE_S = 5.0
"""How long a process that has ended may take to disappear."""


LEFT_OUT = pytest.StashKey[str]()
"""The tests that need what this machine has not, in words."""

ASKED_FOR = ("long", "slurm")
"""Markers of tests that take minutes, or another program."""

GPUS_NEEDED = {"gpu": 1, "multigpu": 2}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests out that have to be asked for, or need what this machine has not."""
    for mark in ASKED_FOR:
        if mark not in config.option.markexpr:
            marked = [item for item in items if item.get_closest_marker(mark)]
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in marked]
    if any(item.get_closest_marker("netns") for item in items) and missing():
        hosts = [item for item in items if item.get_closest_marker("netns")]
        config.hook.pytest_deselected(items=hosts)
        items[:] = [item for item in items if item not in hosts]
        config.stash[LEFT_OUT] = f"{len(hosts)} tests on several hosts are left out {missing()}"
    needed = {id(item): _gpus_needed(item) for item in items}
    if not any(needed.values()):
        return
    import torch

    there = torch.cuda.device_count()
    config.hook.pytest_deselected(items=[i for i in items if needed[id(i)] > there])
    items[:] = [item for item in items if needed[id(item)] <= there]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say aloud what this machine cannot test."""
    said = config.stash.get(LEFT_OUT, None)
    if config.pluginmanager.has_plugin("dsession") and missing():  # xdist's workers cannot say it
        said = f"tests on several hosts are left out {missing()}"
    if said is not None:
        terminalreporter.write_line(said, yellow=True, bold=True)


def _gpus_needed(item: pytest.Item) -> int:
    return max((GPUS_NEEDED.get(mark.name, 0) for mark in item.iter_markers()), default=0)


def pytest_sessionfinish() -> None:
    """The servers live as long as the tests."""
    warm.close()


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Fail a test that leaves a child process, a process group or a changed environment."""
    environment, processes = _environment(), _children()
    yield
    leaks = [*_left_variables(environment), *_left_processes(processes), *_left_process_group()]
    if leaks:
        pytest.fail("the test leaves behind: " + "; ".join(leaks), pytrace=False)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(NOT_OURS)}


def _left_variables(before: dict[str, str]) -> list[str]:
    """Variables that differ from `before`, which is restored."""
    after = _environment()
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    for name in changed:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    return [f"{name}={after.get(name)} (was {before.get(name)})" for name in sorted(changed)]


def _children() -> set[int]:
    """This process's children and those of its fork server; none where the system has no list."""
    servers = {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid}
    own = _children_of(os.getpid()) - {started.pid for started, _ in warm.SERVERS}
    return (own - servers).union(*(_children_of(pid) for pid in servers if pid is not None))


def _children_of(pid: int) -> set[int]:
    found: set[int] = set()
    for path in glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as file:
                found.update(map(int, file.read().split()))
        except OSError:  # the thread has ended
            continue
    return found


def _left_processes(before: set[int]) -> list[str]:
    deadline = time.monotonic() + GRACE_S
    while left := _children() - before:
        multiprocessing.active_children()  # collects those that have ended
        if time.monotonic() > deadline:
            return [f"process {pid} ({_command(pid)})" for pid in sorted(left)]
        time.sleep(0.01)
    return []


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().replace("\0", " ").strip()[:200]
    except OSError:
        return "ended"


def _left_process_group() -> list[str]:
    """The default process group, which is taken down. Torch is not imported for this."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return []
    distributed.destroy_process_group()
    return ["an initialised process group"]
