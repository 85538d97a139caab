"""How many processes, where, and how they find and talk to each other."""

from __future__ import annotations

import copy
import os
import socket
from typing import Literal

from components.cluster.node_count import elastic, node_counts
from components.errors import ConfigError

MOST = 1e8
"""Of seconds (three years) and processes: more is a mistake, and not a number is none."""

CPU_PROCESSES = 2
"""Ranks on a machine without a GPU: enough to see a strategy work."""


def refuse_beyond(key: str, value: float) -> None:
    """Refuse a number of processes, nodes or seconds that cannot be.

    Raises:
        ConfigError: naming `cluster.<key>`.
    """
    if not 0 < value <= MOST:
        raise ConfigError(f"cluster.{key}={value} must be above 0, and at most {MOST:g}.")


class Cluster:
    """The processes of a run.

    Attributes are the arguments, but that `min_nnodes` and `nnodes` are the fewest and the most
    nodes, and `elastic` whether they may come and go.

    Args:
        nproc_per_node: ranks on each node; `auto` is one for each GPU, and two
            on a machine without any (one under a strategy that lives in one process).
        nnodes: nodes. With more than one, the same command is typed on each. `min:max` begins
            with the fewest and goes on with as many as there are at the time.
        node_rank: this node among them, from 0. Node 0 decides the run's folder.
        rdzv_endpoint: `host:port` of node 0, reachable from all nodes.
        device: what a rank computes on.
        backend: of the collectives; `auto` is NCCL on GPUs and gloo on CPUs.
        timeout_s: a collective that waits longer fails, seconds.
        stall_s: the run ends when no rank has come on for so long, seconds: each stays in one
            fetch of data, one forward and backward of a step, one update, one micro-batch of an
            evaluation or one save. Ten times as long for the first step; None: never.
        start_timeout_s: how long ranks and nodes wait for each other at the start, seconds.
        settle_s: with `min:max` nodes, how long a gang waits for one more after the last that came,
            seconds.
        preempt_grace_s: how long ranks have to save and end after a scheduler's signal, seconds.
        check: measure ranks and links before training, as `python -m train.check --quick` does.
        max_restarts: how often a gang that fails is started afresh by the same command.
        threads_per_rank: CPU threads of one rank; `auto` shares the node's cores out.
        interface: network interface for NCCL, gloo and rendezvous, as in `eth0`; None
            takes the one that reaches `rdzv_endpoint`.
        nccl: `NCCL_<KEY>` settings in lower case, as in `debug: INFO`, `ib_disable: 1`.
        peak_flops: FLOP/s of one device in the compute type, for MFU; `auto` looks the
            GPU up, `measure` times a matrix product, None leaves MFU out.
    """

    def __init__(
        self,
        nproc_per_node: int | Literal["auto"] = "auto",
        nnodes: int | str = 1,
        node_rank: int = 0,
        rdzv_endpoint: str | None = None,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        backend: Literal["auto", "gloo", "nccl"] = "auto",
        timeout_s: float = 600.0,
        stall_s: float | None = 1800.0,
        start_timeout_s: float = 300.0,
        settle_s: float = 10.0,
        preempt_grace_s: float = 120.0,
        check: bool = False,
        max_restarts: int = 0,
        threads_per_rank: int | Literal["auto"] = "auto",
        interface: str | None = None,
        nccl: dict[str, str | int | bool | None] | None = None,
        peak_flops: float | Literal["auto", "measure"] | None = "auto",
    ) -> None:
        self.nproc_per_node = nproc_per_node
        self.min_nnodes, self.nnodes = node_counts(nnodes)
        self.elastic = elastic(nnodes)
        self.node_rank = node_rank
        self.rdzv_endpoint = rdzv_endpoint
        self.device = device
        self.backend = backend
        self.timeout_s = timeout_s
        self.stall_s = stall_s
        self.start_timeout_s = start_timeout_s
        self.settle_s = settle_s
        self.preempt_grace_s = preempt_grace_s
        self.check = check
        self.max_restarts = max_restarts
        self.threads_per_rank = threads_per_rank
        self.interface = interface
        self.nccl = nccl or {}
        self.peak_flops = peak_flops
        self._check()

    def _check(self) -> None:
        positive = ("nproc_per_node", "nnodes", "timeout_s", "start_timeout_s", "preempt_grace_s")
        for key in (*positive, "threads_per_rank"):
            value = getattr(self, key)
            if value != "auto":
                refuse_beyond(key, value)
        if not 0 <= self.settle_s <= MOST:
            raise ConfigError(
                f"cluster.settle_s={self.settle_s} must be 0 or more seconds; 0 waits for no node "
                "beyond the fewest of cluster.nnodes."
            )
        if self.stall_s is not None and not 1 <= self.stall_s <= MOST:
            raise ConfigError(
                f"cluster.stall_s={self.stall_s} must be 1 to {MOST:g} seconds, in which every "
                "healthy step, evaluated micro-batch or save ends; null watches for no stall."
            )
        if self.max_restarts < 0:
            raise ConfigError(
                f"cluster.max_restarts={self.max_restarts} must be 0 or more; 0 restarts nothing."
            )
        if isinstance(self.peak_flops, (int, float)) and not self.peak_flops > 0:
            raise ConfigError(
                f"cluster.peak_flops={self.peak_flops} must be above 0, in FLOP/s of one device; "
                "cluster.peak_flops=null leaves MFU out."
            )
        names = [name for _, name in socket.if_nameindex()]
        if self.interface is not None and self.interface not in names:
            raise ConfigError(
                f"cluster.interface={self.interface} is not on {self._here()}. "
                f"It has {', '.join(names)}; null takes the one that reaches the other nodes."
            )
        if not 0 <= self.node_rank < self.nnodes:
            raise ConfigError(
                f"cluster.node_rank={self.node_rank} is not one of the {self.nnodes} nodes: "
                f"give 0 to {self.nnodes - 1}, another on each node, or raise cluster.nnodes."
            )
        if self.nnodes > 1:
            host, _, port = (self.rdzv_endpoint or "").rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise ConfigError(
                    f"cluster.rdzv_endpoint={self.rdzv_endpoint} must be host:port of node 0 with "
                    f"cluster.nnodes={self.nnodes}, as in cluster=multi_node "
                    "cluster.rdzv_endpoint=node0:29500."
                )
        if self.backend == "nccl" and self.device_type() == "cpu":
            raise ConfigError(
                "cluster.backend=nccl needs GPUs and this run computes on the cpu "
                f"(cluster.device={self.device}). Nearest: cluster.backend=gloo."
            )

    def formed(self, nnodes: int, node_rank: int) -> Cluster:
        """This cluster with so many of its nodes, of which this one has the place `node_rank`."""
        formed = copy.copy(self)
        formed.min_nnodes, formed.nnodes, formed.elastic = nnodes, nnodes, False
        formed.node_rank = node_rank
        return formed

    def _here(self) -> str:
        if self.nnodes == 1:
            return "this machine"
        return f"node {self.node_rank} ({socket.gethostname()})"

    def device_type(self) -> str:
        """`cuda` or `cpu`, as chosen or found.

        Raises:
            ConfigError: when GPUs are asked for and there are none.
        """
        if self.device == "cpu":
            return "cpu"
        import torch

        found = torch.cuda.is_available()
        if self.device == "cuda" and not found:
            raise ConfigError(
                "cluster.device=cuda: torch finds no GPU on this machine. "
                "Nearest: cluster.device=cpu."
            )
        return "cuda" if found else "cpu"

    def backend_name(self) -> str:
        """`nccl` or `gloo`."""
        if self.backend != "auto":
            return self.backend
        return "nccl" if self.device_type() == "cuda" else "gloo"

    def local_world_size(self, one_process: bool) -> int:
        """Ranks on this node, for a strategy that lives in one process or not.

        Raises:
            ConfigError: when more GPUs are asked for than there are.
        """
        gpus = self._gpus() if self.device_type() == "cuda" else 0
        if self.nproc_per_node == "auto":
            return 1 if one_process else gpus or CPU_PROCESSES
        if gpus and self.nproc_per_node > gpus:
            raise ConfigError(
                f"cluster.nproc_per_node={self.nproc_per_node} asks for more ranks than this node "
                f"has GPUs ({gpus}). Nearest: cluster.nproc_per_node={gpus}."
            )
        return self.nproc_per_node

    @staticmethod
    def _gpus() -> int:
        import torch

        return torch.cuda.device_count()

    def threads(self, local_world_size: int) -> int:
        """CPU threads of one rank."""
        if self.threads_per_rank != "auto":
            return self.threads_per_rank
        return max(1, len(os.sched_getaffinity(0)) // local_world_size)

    def environment(self, interface: str | None) -> dict[str, str]:
        """The variables through which NCCL and gloo take settings, for each rank's process."""
        variables = {
            f"NCCL_{key.upper()}": str(int(value) if isinstance(value, bool) else value)
            for key, value in self.nccl.items()
            if value is not None
        }
        chosen = self.interface or interface
        if chosen is not None:
            variables["GLOO_SOCKET_IFNAME"] = chosen
            variables.setdefault("NCCL_SOCKET_IFNAME", chosen)
        return variables
