"""A Slurm of one's own on this machine: munged, slurmctld and two slurmd, as root, without systemd.

Each slurmd has its process and mount namespaces: a node dies with all that runs on it, nothing
outlives the end, and the nodes' names resolve on the nodes alone. No accounting, no cgroups.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "unshare")
INSTALL = "apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge"

NODES = ("node1", "node2")

START_S = 60.0
"""How long the nodes may take to be ready."""

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A job that goes back into the queue waits as long as credentials live: two minutes otherwise.
AuthInfo=socket={place}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={place}/slurmctld.run
SlurmdPidFile={place}/slurmd-%n.run
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
SchedulerParameters=sched_interval=2
ReturnToService=2
SlurmdTimeout=10
KillWait=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""
PARTITIONS = """\
PartitionName=main Nodes=ALL Default=YES PriorityTier=10 PreemptMode=OFF
PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
"""


def missing() -> str | None:
    """What keeps a Slurm from being started here; None when nothing does."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"there is no {', '.join(absent)} on PATH: {INSTALL}"
    return None if os.geteuid() == 0 else "its daemons have to be started as root"


@dataclass
class Slurm:
    """The cluster, from `start` to `stop`."""

    place: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="slurm-")))

    @property
    def env(self) -> Mapping[str, str]:
        """The variable by which Slurm's commands find it."""
        return {"SLURM_CONF": str(self.place / "slurm.conf")}

    def start(self) -> None:
        """Start all daemons; waits until both nodes are idle."""
        self._write_files()
        self._guard()
        key, sock = self.place / "munge.key", self.place / "munge.sock"
        quiet = f"--pid-file={self.place}/munged.run --log-file={self.place}/munged.log"
        seed = f"--seed-file={self.place}/munge.seed"
        self._daemon(
            "munged", f"munged --foreground --force --key-file={key} --socket={sock} {quiet} {seed}"
        )
        self.until(sock.exists)
        self._daemon("slurmctld", "slurmctld -D -c")
        for node in NODES:
            self.node_up(node)
        self.until(
            lambda: self.run("sinfo", "-hN", "-p", "main", "-o", "%T").split() == ["idle"] * 2
        )

    def stop(self) -> None:
        """End all, jobs included."""
        for name in (*NODES, "slurmctld", "munged"):
            self._kill(name)
        shutil.rmtree(self.place, ignore_errors=True)

    def node_up(self, node: str) -> None:
        """Start a node, or start it again."""
        hosts = shlex.quote(str(self.place / "hosts"))
        inside = f"mount --bind {hosts} /etc/hosts && exec slurmd -D -N {node}"
        spaces = "unshare --mount --pid --fork --kill-child --mount-proc"
        self._daemon(node, f"{spaces} sh -c {shlex.quote(inside)}")

    def node_down(self, node: str) -> None:
        """Kill a node, and all that runs on it."""
        self._kill(node)

    def run(self, *words: str) -> str:
        """What one of Slurm's commands says; empty where it fails."""
        done = subprocess.run(
            words, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60
        )
        return done.stdout if done.returncode == 0 else ""

    def states(self) -> dict[str, str]:
        """Of all jobs that are known, by id."""
        rows = self.run("squeue", "-h", "--array", "--states=all", "-o", "%i|%T").split()
        return dict(row.split("|") for row in rows)

    def node_of(self, job: str) -> str:
        """Where a job runs."""
        return self.run("squeue", "-h", "--array", "-j", job, "-o", "%N").strip()

    def until(self, happened: Callable[[], object], limit: float = START_S) -> None:
        """Wait for something.

        Raises:
            AssertionError: with the daemons' logs, when it does not happen within `limit` seconds.
        """
        end = time.monotonic() + limit
        while not happened():
            if time.monotonic() > end:
                logs = [path.read_text()[-2000:] for path in self.place.glob("*.log")]
                raise AssertionError("did not happen\n" + "\n".join(logs))
            time.sleep(0.2)

    def _write_files(self) -> None:
        self.place.chmod(0o755)
        (self.place / "munge.key").write_bytes(secrets.token_bytes(1024))
        (self.place / "munge.key").chmod(0o400)
        own = "".join(f"127.0.0.1 {node}\n" for node in NODES)
        (self.place / "hosts").write_text(Path("/etc/hosts").read_text() + own)
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(1 + len(NODES))
        lines = [CONF.format(host=host, place=self.place, port=ports[0])]
        for node, port in zip(NODES, ports[1:], strict=True):
            (self.place / f"spool-{node}").mkdir()
            at = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            lines.append(f"NodeName={node} {at} CPUs=2 RealMemory=4000\n")
        (self.place / "state").mkdir()
        (self.place / "slurm.conf").write_text("".join([*lines, PARTITIONS]))

    def _guard(self) -> None:
        """Start a process that ends all when this one is gone without having stopped it."""
        place = shlex.quote(str(self.place))
        wait = f"while kill -0 {os.getpid()} && [ -d {place} ]; do sleep 1; done"
        end = f"cd {place} && kill -9 $(cat *.pid); rm -rf {place}"
        subprocess.run(
            ["setsid", "--fork", "sh", "-c", f"exec 2>/dev/null; {wait}; {end}"], check=True
        )

    def _daemon(self, name: str, command: str) -> None:
        """Start a process that is nobody's child, and remember its number."""
        pid, log = self.place / f"{name}.pid", self.place / f"{name}.out.log"
        inside = f"echo $$ > {pid}; exec {command} >>{log} 2>&1"
        subprocess.run(
            ["setsid", "--fork", "sh", "-c", inside],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            check=True,
        )
        self.until(lambda: pid.exists() and pid.read_text().strip())

    def _kill(self, name: str) -> None:
        path = self.place / f"{name}.pid"
        if not path.exists():
            return
        pid = int(path.read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: _gone(pid))
        path.unlink()


def _gone(pid: int) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def _free_ports(number: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
