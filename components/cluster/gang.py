"""Start a gang of fresh rank processes through torch's elastic launcher, and wait for its end.

Ranks are forked from a server process that has imported torch and computed
nothing: a gang starts in a fraction of the time that imports take, and no
state of one run reaches the next. The server lives as long as its controller.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection

from components.cluster.cluster import Cluster
from components.cluster.network import address_towards, interface_of

log = logging.getLogger(__name__)

PRELOAD = ("torch", "torch.distributed", "torch._dynamo", "numpy", "omegaconf", "hydra")
"""What the server imports before the first fork; the first optimizer step needs dynamo."""

KILL_AFTER_S = 5
"""A rank that is told to end and does not is killed after so many seconds."""


class Interrupted(Exception):
    """The controller was told to stop by a signal; the gang is gone."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


@dataclass(frozen=True)
class Exit:
    """How one rank of this node ended: `code` 0 is well, below 0 is minus a signal's number."""

    rank: int
    code: int
    seen: float


class RendezvousFailed(Exception):
    """The nodes did not find each other."""


def launch(
    cluster: Cluster,
    local_world_size: int,
    run_id: str,
    worker: Callable[..., None],
    args: Sequence[object],
    preload: Sequence[str] = (),
) -> list[Exit]:
    """Run `worker(*args)` in `local_world_size` processes on this node until all end.

    The first rank that fails ends the others.

    Args:
        run_id: names the rendezvous; the same on all nodes, another for each attempt.
        worker: a module-level function.
        preload: further modules that the server imports, if this is its first gang. They
            must start no thread and touch no device.

    Returns:
        The ranks of this node that ended badly; empty when all ended well.

    Raises:
        Interrupted: on SIGTERM, SIGINT, SIGHUP or SIGQUIT.
        RendezvousFailed: when the nodes did not find each other in time.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # Its news is ours to tell; what it logs on its own is the same news in other words.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    multiprocessing.set_forkserver_preload([*PRELOAD, *preload])
    endpoint, local_addr = "localhost:0", "localhost"
    if cluster.nnodes > 1:
        assert cluster.rdzv_endpoint is not None
        endpoint = cluster.rdzv_endpoint
        local_addr, _ = own_address(cluster)
    with tempfile.TemporaryDirectory(prefix="shardlab-") as scratch:
        config = LaunchConfig(
            min_nodes=cluster.nnodes,
            max_nodes=cluster.nnodes,
            nproc_per_node=local_world_size,
            run_id=run_id,
            rdzv_backend="c10d",
            rdzv_endpoint=endpoint,
            rdzv_configs={
                "is_host": str(cluster.node_rank == 0),
                "join_timeout": int(cluster.start_timeout_s),
                # How long to wait for node 0's store; torch's own default is a minute.
                "read_timeout": int(cluster.start_timeout_s),
            },
            # A restart in place reads the addresses of ranks that are gone: a new attempt
            # is a new gang.
            max_restarts=0,
            start_method="forkserver",
            local_addr=local_addr,
            logs_specs=DefaultLogsSpecs(log_dir=scratch),
            shutdown_timeout=KILL_AFTER_S,
        )
        try:
            elastic_launch(config, worker)(*args)
        except ChildFailedError as error:
            return [
                Exit(rank, failure.exitcode, float(failure.timestamp))
                for rank, failure in sorted(error.failures.items())
            ]
        except SignalException as error:
            raise Interrupted(int(error.sigval)) from None
        except RendezvousError as error:
            raise RendezvousFailed(str(error)) from error
    return []


def own_address(cluster: Cluster) -> tuple[str, str | None]:
    """This node's address on the way to `cluster.rdzv_endpoint`, and the interface that has it.

    Raises:
        RendezvousFailed: when the host does not resolve or cannot be routed to.
    """
    assert cluster.rdzv_endpoint is not None
    host, _, port = cluster.rdzv_endpoint.rpartition(":")
    try:
        address = address_towards(host, int(port))
    except OSError as error:
        raise RendezvousFailed(
            f"cluster.rdzv_endpoint={cluster.rdzv_endpoint}: {host} cannot be reached from node "
            f"{cluster.node_rank}: {error.strerror or error}. Give an address of node 0 that "
            "every node resolves."
        ) from error
    return address, interface_of(address)


def die_with_controller() -> None:
    """Called in a rank: end this process at once when its controller is gone, however it went.

    The pipe that `multiprocessing` keeps to the parent closes even on SIGKILL.
    Signals are left to the controller: an interrupt at the terminal reaches the
    whole process group, and one report of it is enough.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        connection.wait([sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="controller-watch", daemon=True).start()


def new_run_id() -> str:
    """A rendezvous name that no other gang has."""
    return f"shardlab-{os.getpid()}-{time.time_ns():x}"
