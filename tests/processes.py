"""Processes of a started command, all of them, wherever they have put themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.runs import Outcome, Run, find_runs, start_train

MARK = "SHARDLAB_TEST_FAMILY"
"""A variable that every process of one command inherits, daemons included."""


@dataclass
class Family:
    """A started command and all processes that come of it.

    Attributes:
        first: the process that was started.
        mark: the value of `MARK` in each member's environment.
        cwd: where its runs land.
    """

    first: subprocess.Popen[str]
    mark: str
    cwd: Path

    def members(self) -> list[psutil.Process]:
        """Those alive now; zombies do not count."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE and self._marked(process.pid):
                    found.append(process)
        return found

    def _marked(self, pid: int) -> bool:
        return f"{MARK}={self.mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()

    def ranks(self) -> dict[int, psutil.Process]:
        """The rank processes by rank, as their logs' first users: who writes `rank-N.log`."""
        ranks: dict[int, psutil.Process] = {}
        for process in self.members():
            with suppress(psutil.Error, OSError):
                for fd in (1, 2):
                    target = os.readlink(f"/proc/{process.pid}/fd/{fd}")
                    name = Path(target).name
                    if name.startswith("rank-") and name.endswith(".log"):
                        rank = int(name[5:-4])
                        if rank not in ranks or process.pid < ranks[rank].pid:
                            ranks[rank] = process
        return ranks

    def gone_after(self, limit: float = 10.0) -> float:
        """Seconds until no member is left.

        Raises:
            AssertionError: with those that are still there after `limit` seconds.
        """
        start = time.monotonic()
        while members := self.members():
            if time.monotonic() - start > limit:
                left = [f"{p.pid} {' '.join(p.cmdline())[:120]}" for p in members]
                raise AssertionError(f"alive after {limit} s:\n" + "\n".join(left))
            time.sleep(0.05)
        return time.monotonic() - start

    def until(self, happened: Callable[[], object], limit: float = 90.0) -> None:
        """Wait for something, as long as the command runs.

        Raises:
            AssertionError: when the command ends first, or after `limit` seconds.
        """
        end = time.monotonic() + limit
        while not happened():
            assert self.first.poll() is None, f"ended too early\n{self.first.communicate()}"
            assert time.monotonic() < end, f"did not happen within {limit} s"
            time.sleep(0.05)

    def wait_a_little(self) -> None:
        """The pause between two looks at what happens."""
        time.sleep(0.05)

    def run(self) -> Run | None:
        """Its only run, once there is one."""
        runs = find_runs(self.cwd)
        return runs[0] if runs else None

    def training(self, step: int = 1) -> bool:
        """Whether a record of at least `step` has been written."""
        run = self.run()
        return run is not None and any(record["step"] >= step for record in run.metrics)

    def outcome(self, limit: float = 10.0) -> Outcome:
        """How the command ended, which it must have done within `limit` seconds from now."""
        stdout, stderr = self.first.communicate(timeout=limit)
        return Outcome(self.first.returncode, stdout, stderr, find_runs(self.cwd))


@contextmanager
def family(
    cwd: Path,
    *words: str,
    launcher: Sequence[str] = (sys.executable, "-m", "train"),
    env: Mapping[str, str] | None = None,
) -> Iterator[Family]:
    """Start `python -m train` with these words; kill whatever is left of it in the end.

    Args:
        launcher: as in `start_train`.
    """
    mark = uuid.uuid4().hex
    started = start_train(cwd, *words, launcher=launcher, env={MARK: mark, **(env or {})})
    one = Family(started, mark, cwd)
    try:
        yield one
    finally:
        for process in one.members():
            with suppress(psutil.Error):
                process.kill()
        for stream in (started.stdout, started.stderr):
            if stream is not None:
                stream.close()
        started.wait(10)
