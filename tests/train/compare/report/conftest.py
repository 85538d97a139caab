"""A browser for the tests of the page, installed where that can be done."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.train.compare.report.browser import PROGRAMS, Browser, chromium

INSTALL_S = 300.0


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests; it is installed first, as root on Debian."""
    # Workers that test in parallel install it once.
    with (Path(tempfile.gettempdir()) / "shardlab-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(program.exists() for program in PROGRAMS.values()):
            _install()
    with chromium() as opened:
        yield opened


def _install() -> None:
    command = f"apt-get install --no-install-recommends {' '.join(PROGRAMS)}"
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        pytest.skip(f"the page is looked at in Chromium, which is not here: {command}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *PROGRAMS],
    ):
        done = subprocess.run(
            [*words, "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=120"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_S,
        )
        if done.returncode:
            told = "\n".join(done.stdout.splitlines()[-15:])
            pytest.fail(f"{' '.join(words)} failed; by hand: {command}\n{told}", pytrace=False)
