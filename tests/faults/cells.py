"""One fault under one strategy or several: brought about in a real run, and gone on from."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.cluster.hosts import Host
from tests.cluster.nodes import typed_on
from tests.faults.kinds import Fault
from tests.processes import Family, family
from tests.runs import Run, find_runs

LIMIT_S = 120.0
"""After which a process that still runs counts as left."""

TRUSTED = "allowed_targets=[probe_faults]"
"""A run's own words may not name modules of just anybody."""


@dataclass(frozen=True)
class Row:
    """What a fault did under one strategy.

    Attributes:
        over_s: seconds from the fault until its end was told, and no rank was left.
        said: the first line of the cause, on node 0; empty when nobody could tell.
        status: in status.json.
        lost: steps after the last checkpoint.
        left: processes that were left.
        resumed: whether the run came to its end when it was gone on with.
    """

    over_s: float
    said: str
    status: str
    lost: int
    left: int
    resumed: bool = False


@dataclass
class Job(Family):
    """A command of which one job counts."""

    strategy: str = ""

    def run(self) -> Run | None:
        for run in find_runs(self.cwd):
            with suppress(FileNotFoundError):  # it has only just begun
                if run.overrides.get("parallel") == self.strategy:
                    return run
        return None


def in_a_sweep(fault: Fault, strategies: Sequence[str], cwd: Path) -> dict[str, Row]:
    """The fault in each job of a sweep, which is then gone on with."""
    rows: dict[str, Row] = {}
    once = None if fault.once is None else cwd / fault.once
    with family(cwd, "-m", *fault.words(cwd), f"parallel={','.join(strategies)}") as command:
        for strategy in strategies:
            job = Job(command.first, command.mark, cwd, strategy)
            job.until(job.run, LIMIT_S)
            fault.act(job)
            began, ranks = time.monotonic(), [*job.ranks().values()]
            job.until(lambda job=job: not going_on(job), LIMIT_S)
            left = _left(lambda ranks=ranks: [r for r in ranks if r.is_running()], began)
            rows[strategy] = _row(job, time.monotonic() - began, left)
            if once is not None:
                once.unlink()
        command.first.wait(LIMIT_S)
    if once is not None:
        once.touch()
    (sweep,) = {run.folder.parent for run in find_runs(cwd)}
    with family(cwd, f"sweep.resume={sweep}", TRUSTED) as command:
        command.first.communicate(timeout=4 * LIMIT_S)
    return {
        strategy: resumed(row, Job(command.first, "", cwd, strategy).run())
        for strategy, row in rows.items()
    }


def alone(fault: Fault, strategy: str, hosts: Sequence[Host], cwd: Path) -> Row:
    """The fault in a run of its own, which is then gone on with."""
    with ExitStack() as stack:
        if fault.small_disk:
            stack.enter_context(small_disk(cwd))
        with begun(fault, hosts, cwd, (*fault.words(cwd), f"parallel={strategy}")) as commands:
            fault.act(commands[0])
            began = time.monotonic()
            if fault.hosts > 1:
                hosts[1].cut()
            if fault.small_disk:
                fill(cwd)
            left = _left(lambda: [p for command in commands for p in command.members()], began)
            row = _row(commands[0], time.monotonic() - began, left)
        for host in hosts:
            host.heal()
        (cwd / "filling").unlink(missing_ok=True)
        (run,) = find_runs(cwd)
        with begun(fault, hosts, cwd, (f"resume={run.folder}", TRUSTED, *fault.again)) as commands:
            for command in commands:
                command.first.communicate(timeout=2 * LIMIT_S)
        return resumed(row, Run(run.folder))


def _row(command: Family, over_s: float, left: int) -> Row:
    run = command.run()
    assert run is not None
    cause = ((run.status.get("error") or {}).get("cause") or "").replace(str(run.folder), "RUN")
    lost = last_step(run) - last_saved(run)
    return Row(over_s, cause.partition("\n")[0], run.status["status"], lost, left)


def resumed(row: Row, run: Run | None) -> Row:
    """The row, once the run was gone on with."""
    assert run is not None
    well = run.status["status"] == "completed" and last_step(run) == 40
    return Row(row.over_s, row.said, row.status, row.lost, row.left, well)


def going_on(command: Family) -> bool:
    run = command.run()
    return run is None or run.status.get("status") == "running"


def _left(alive: Callable[[], list[psutil.Process]], began: float) -> int:
    while (some := alive()) and time.monotonic() < began + LIMIT_S:
        time.sleep(0.05)
    return len(some)


@contextmanager
def begun(
    fault: Fault, hosts: Sequence[Host], cwd: Path, words: Sequence[str]
) -> Iterator[list[Family]]:
    """The command, on as many hosts as the fault needs."""
    if fault.hosts > 1:
        with typed_on(hosts, cwd, *words) as commands:
            yield commands
    else:
        with family(cwd, *words) as command:
            yield [command]


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of 2 MB at the folder."""
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "shardlab-test", str(folder)]
    subprocess.run(words, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Leave 20 KB, as a file that grows would."""
    stat = os.statvfs(disk)
    (disk / "filling").write_bytes(bytes(max(0, stat.f_bavail * stat.f_bsize - 20_000)))


def last_step(run: Run) -> int:
    """By its records, of which there is one a step; the last line may be torn."""
    lines = (run.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    return sum(line.endswith("\n") and "train/loss" in line for line in lines)


def last_saved(run: Run) -> int:
    """The step of the newest checkpoint that is whole."""
    found = [path.name for path in (run.folder / "checkpoints").glob("step-*")]
    return max((int(name[5:]) for name in found if name[5:].isdigit()), default=0)
