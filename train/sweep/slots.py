"""Where jobs run: in this process one after the other, or in several slots at once.

A slot is a process with a share of the machine that leads one job after the other, as this
process does when there is one slot: its ranks come from a server of its own, which is started
once. What a job says goes into its folder; the sweep says when it begins and how it ended.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from omegaconf import DictConfig

from components.cluster.gang import die_with_controller, start_server
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.signals import HEEDED, Interrupted, held, raise_interrupts
from train import status
from train.preload import preload
from train.sweep import job
from train.sweep.cells import Cell
from train.sweep.present import Sweep
from train.sweep.share import Share, shares

DONE, FAILED = 0, 1

CONSOLE = Path("logs") / "console.log"
"""What a job in a slot says, in its folder; what its ranks say is in their own logs."""

POLL_S = 0.5
"""How often the signals of this process are looked at."""

END_S = 30.0
"""How long slots may take to end their jobs after a signal."""

Prepare = Callable[[Cell], DictConfig]


def run(sweep: Sweep, cells: list[Cell], prepare: Prepare) -> int:
    """Run jobs to their ends.

    Args:
        prepare: makes a job's folder and gives its resolved config.

    Returns:
        1 when one failed that keeps others from starting, 75 when one was preempted, else 0.

    Raises:
        Interrupted: by a signal; all jobs are ended and told of by then.
    """
    if sweep.options.slots == 1 or len(cells) <= 1:
        return _one_by_one(sweep, cells, prepare)
    return Slots(sweep, cells, prepare).run()


def _one_by_one(sweep: Sweep, cells: list[Cell], prepare: Prepare) -> int:
    for cell in cells:
        print(f"\n{title(sweep, cell)}", flush=True)
        config = prepare(cell)
        sweep.begun.add(cell.folder)
        code = job.run(config, cell.folder, sweep.notice)
        if code == PREEMPTED or sweep.notice.asked or _stops(sweep, code):
            return code
    return DONE


def _stops(sweep: Sweep, code: int) -> bool:
    return sweep.options.on_error == "stop" and code == FAILED


def title(sweep: Sweep, cell: Cell) -> str:
    """A job's number, as its folder's name has it, which of how many, and its overrides."""
    place = "" if sweep.search else f" ({sweep.cells.index(cell) + 1} of {len(sweep.cells)})"
    return f"job {cell.number}{place}: {' '.join(cell.job.overrides)}"


@dataclass
class _Slot:
    """A process that leads jobs.

    Attributes:
        pipe: takes a job's folder and config, and gives its exit code.
        cell: the job it leads at the moment.
    """

    share: Share
    process: BaseProcess
    pipe: Connection
    cell: Cell | None = None


@dataclass
class Slots:
    """The slots of a sweep, from the process that hands out the jobs."""

    sweep: Sweep
    cells: list[Cell]
    prepare: Prepare
    _slots: list[_Slot] = field(default_factory=list)
    _ended: list[int] = field(default_factory=list)

    def run(self) -> int:
        """See `run` of this module."""
        number = min(self.sweep.options.slots, len(self.cells))
        shared = shares(number, [cell.job for cell in self.cells])
        waiting = deque(self.cells)
        modules = preload(self.cells[0].job.config)
        notice = self.sweep.notice
        try:
            self._slots = [_start(share, modules) for share in shared]
            with notice.heeded():
                while waiting or any(slot.cell for slot in self._slots):
                    if self._over():
                        waiting.clear()
                    for slot in self._slots:
                        if slot.cell is None and waiting:
                            self._hand_out(slot, waiting.popleft())
                    self._wait()
            return max(self._ended, default=DONE)
        finally:
            self._end()

    def _over(self) -> bool:
        if self.sweep.notice.asked:
            self._signal(self.sweep.notice.asked)
            return True
        return any(code == PREEMPTED or _stops(self.sweep, code) for code in self._ended)

    def _hand_out(self, slot: _Slot, cell: Cell) -> None:
        if not slot.process.is_alive():
            self._slots[self._slots.index(slot)] = slot = _start(
                slot.share, preload(cell.job.config)
            )
        config = self.prepare(cell)
        self.sweep.begun.add(cell.folder)
        slot.cell = cell
        print(f"begins: {title(self.sweep, cell)}", flush=True)
        with suppress(OSError):  # a slot that is gone is seen by its sentinel
            slot.pipe.send((cell.folder, config))

    def _wait(self) -> None:
        """Until a job has ended, or a while."""
        busy = [slot for slot in self._slots if slot.cell]
        ready = connection.wait(
            [w for s in busy for w in (s.pipe, s.process.sentinel)], timeout=0.5
        )
        for slot in busy:
            if slot.pipe not in ready and slot.process.sentinel not in ready:
                continue
            cell = slot.cell
            assert cell is not None
            try:
                code = int(slot.pipe.recv())
            except (EOFError, OSError):
                code = self._lost(slot, cell)
            slot.cell = None
            self._ended.append(code)
            words = job.headline(cell.folder, self.sweep.options.objective)
            print(f"ended:  job {cell.number}: {words} ({cell.folder.name})", flush=True)

    def _lost(self, slot: _Slot, cell: Cell) -> int:
        """A slot's process is gone, and its job's ranks with it."""
        slot.process.join()
        code = slot.process.exitcode or 0
        if code == PREEMPTED:
            return code
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        if status.read(cell.folder).get("status") in (None, "running"):
            job.record(cell.folder, "killed", f"the process that led this job {how}")
        return FAILED

    def _signal(self, signum: int) -> None:
        for slot in self._slots:
            if slot.process.is_alive() and slot.process.pid:
                with suppress(ProcessLookupError):
                    os.kill(slot.process.pid, signum)

    def _end(self) -> None:
        """No job is left, or all are to end now. Bounded."""
        with held(*HEEDED):
            for slot in self._slots:
                slot.pipe.close()
            if any(slot.cell for slot in self._slots):
                self._signal(signal.SIGINT)
            for slot in self._slots:
                slot.process.join(END_S)
                if slot.process.is_alive():
                    slot.process.kill()
                    slot.process.join()


def _start(share: Share, modules: tuple[str, ...]) -> _Slot:
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    args = (share, theirs, modules, sys.orig_argv)
    process = context.Process(target=_lead_jobs, args=args, name="slot")
    with held(*HEEDED):
        process.start()
    theirs.close()
    return _Slot(share, process, ours)


def _lead_jobs(
    share: Share, pipe: Connection, modules: tuple[str, ...], command: list[str]
) -> None:
    """A slot: lead jobs until there is none.

    Args:
        command: that of the sweep, for the records.
    """
    die_with_controller()
    sys.orig_argv = command
    for number in HEEDED:
        signal.signal(number, signal.SIG_DFL)  # the server that this was forked from ignores them
    raise_interrupts()
    share.take()
    _silence()
    start_server(modules)
    notice = Notice()
    try:
        while not notice.asked:
            folder, config = pipe.recv()
            pipe.send(_lead_job(folder, config, notice))
    except EOFError:
        return
    except Interrupted as stop:
        sys.exit(PREEMPTED if stop.warning else stop.exit_code)


def _lead_job(folder: Path, config: DictConfig, notice: Notice) -> int:
    (folder / CONSOLE).parent.mkdir(exist_ok=True)
    with (
        open(folder / CONSOLE, "a", buffering=1) as console,
        redirect_stdout(console),
        redirect_stderr(console),
    ):
        return job.run(config, folder, notice)


def _silence() -> None:
    """What ranks say stands in their own logs; several jobs at once would garble the terminal."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
