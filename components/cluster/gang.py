"""Start a gang of fresh rank processes on this node, and wait for its end.

Ranks are forked from a server process that has imported torch and computed
nothing: a gang starts in a fraction of the time that imports take, and no
state of one run reaches the next. The server lives as long as its controller.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.process import BaseProcess

from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.cluster.oom import oom_kills
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.signals import HEEDED, held

DEAF = "components.cluster.deaf"
"""The first module that the server imports."""

PRELOAD = ("torch", "torch.distributed", "torch._dynamo", "numpy", "omegaconf", "hydra")
"""What the server imports before the first fork; the first optimizer step needs dynamo."""

GRACE_S = 3.0
"""After one rank's bad end, the others have so many seconds to notice and close their books."""

GONE_S = 4.0
"""How long a killed rank is waited for; only one in the kernel's hands takes longer."""

POLL_S = 0.5
"""How often other nodes are asked how they are."""

REGROUP = signal.SIGUSR2
"""What ranks are sent to save and end for another gang."""


@dataclass(frozen=True)
class Exit:
    """How one rank ended: `code` 0 is well, below 0 is minus a signal's number.

    Attributes:
        seen: when, in seconds since the epoch.
        oom_kills: processes that the kernel killed for want of memory while the ranks ran.
    """

    rank: int
    code: int
    seen: float
    oom_kills: int = 0

    @property
    def bad(self) -> bool:
        """Whether it brings the other ranks down. Those of a preempted gang leave together."""
        return self.code not in (0, PREEMPTED)


class Lost(Exception):
    """The ranks of this node were ended because those of another came to a bad end."""


class Overdue(Exception):
    """The ranks were ended because they had not heeded a warning in time."""


def members(
    cluster: Cluster, local_world_size: int, host: str, port: int, attempt: int
) -> list[Joined]:
    """The places of this node's ranks, whose store is at `host:port`."""
    first, world_size = cluster.node_rank * local_world_size, cluster.nnodes * local_world_size
    return [
        Joined(
            launcher="train",
            rank=first + local_rank,
            world_size=world_size,
            local_rank=local_rank,
            local_world_size=local_world_size,
            nnodes=cluster.nnodes,
            host=host,
            port=port,
            hosted=True,
            attempt=attempt,
        )
        for local_rank in range(local_world_size)
    ]


def launch(
    members: Sequence[Joined],
    worker: Callable[..., None],
    args: Sequence[object],
    notice: Notice,
    grace_s: float,
    lost: Callable[[], bool] = lambda: False,
    regroup: Callable[[], bool] = lambda: False,
    alarm: Callable[[list[Exit]], None] = lambda exits: None,
) -> list[Exit]:
    """Run `worker(member, *args)` in a process for each member until all have ended.

    The first rank that fails ends the others, and so does any exception here. A warning
    that comes while they run is passed on to them.

    Args:
        members: this node's ranks.
        worker: a module-level function.
        notice: takes the warning.
        grace_s: how long ranks have to end after a warning, or after the first of them did.
        lost: whether the rest of the gang, on other nodes, has come to a bad end. Asked again
            and again; may raise to end the ranks.
        regroup: whether ranks are to save and end, as after a warning, so that another gang can go
            on. They may take their time.
        alarm: called once when some rank has come to a bad end, with the ends so far, before the
            others are ended.

    Returns:
        Empty when all ranks ended well. Else the ends of those that ended by themselves, in
        their order: a code of 0 is among them when a rank left early and brought others down.

    Raises:
        Lost: when only `lost` was the reason to end them.
        Overdue: when they did not heed a warning within `grace_s`.
        Interrupted: by a second warning, or by a signal before all ranks run.
    """
    start_server()
    context = multiprocessing.get_context("forkserver")
    processes: dict[int, BaseProcess] = {}
    try:
        for member in members:
            process = context.Process(
                target=_enter, args=(worker, member, *args), name=f"rank-{member.rank}"
            )
            process.start()
            processes[member.rank] = process
        with notice.heeded():
            return _wait(processes, lost, regroup, alarm, notice, grace_s)
    finally:
        _end(list(processes.values()))


def start_server(preload: Sequence[str] = ()) -> None:
    """Start the server, unless it runs already, and do not wait for its imports.

    Args:
        preload: further modules that it imports. They must start no thread and touch no device.
    """
    multiprocessing.set_forkserver_preload([DEAF, *PRELOAD, *preload])
    # A Ctrl-C at the terminal and a scheduler's SIGTERM reach every process. It is the
    # controller that acts on them; without the server, it would lose sight of its ranks.
    with held(*HEEDED):
        # The server's start asks for the tracker's, which ends by letting signals through again.
        resource_tracker.ensure_running()
    with held(*HEEDED):
        forkserver.ensure_running()


def _wait(
    processes: dict[int, BaseProcess],
    lost: Callable[[], bool],
    regroup: Callable[[], bool],
    alarm: Callable[[list[Exit]], None],
    notice: Notice,
    grace_s: float,
) -> list[Exit]:
    running, exits, killed = dict(processes), list[Exit](), oom_kills()
    never = float("inf")
    failing, leaving = never, never  # until when the ranks may go on, in either case
    while running and time.monotonic() < min(failing, leaving):
        connection.wait([process.sentinel for process in running.values()], POLL_S)
        for rank, process in list(running.items()):
            if process.exitcode is not None:
                del running[rank]
                starved = oom_kills() - killed if process.exitcode < 0 else 0
                exits.append(Exit(rank, process.exitcode, time.time(), starved))
        if failing == never and (any(end.bad for end in exits) or lost()):
            alarm(exits)
            failing = time.monotonic() + GRACE_S
        if leaving == never and (notice.asked or any(end.code == PREEMPTED for end in exits)):
            leaving = time.monotonic() + grace_s
            if notice.asked:
                name = notice.asked.name
                print(f"{name}: {HEEDING}", file=sys.stderr, flush=True)
        if notice.asked:
            _warn(running.values(), notice.asked)
        elif regroup():
            _warn(running.values(), REGROUP)
    if running and not any(end.code for end in exits):
        raise Lost if failing < leaving else Overdue
    return exits if any(end.code for end in exits) else []


HEEDING = "saving at the end of this step, then ending; a second signal ends at once"


def _warn(processes: Iterable[BaseProcess], signum: signal.Signals) -> None:
    """Pass a warning on. Repeated, for a rank that has only just begun ignores it."""
    for process in processes:
        with suppress(ProcessLookupError):
            assert process.pid is not None
            os.kill(process.pid, signum)


def _end(processes: Sequence[BaseProcess]) -> None:
    """End whatever still runs: by force, since ranks take SIGTERM for a warning. Bounded."""
    with held(*HEEDED):
        deadline = time.monotonic() + GONE_S
        for process in processes:
            if process.is_alive():
                process.kill()
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))


def _enter(worker: Callable[..., None], member: Joined, *args: object) -> None:
    die_with_controller()
    worker(member, *args)


def die_with_controller() -> None:
    """Called in a rank: end this process at once when its controller is gone, however it went.

    The pipe that `multiprocessing` keeps to the parent closes even on SIGKILL.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        connection.wait([sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="controller-watch", daemon=True).start()
