"""Models and data sets that go wrong on one rank, at one step."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from components.checkpoint import folders
from components.checkpoint.checkpoint import Checkpoint
from components.checkpoint.saver import Saver
from components.cluster.control import Control
from components.data.prepared import prepare_once
from components.data.synthetic import Synthetic
from components.errors import ConfigError
from components.model.mlp import MLP

log = logging.getLogger(__name__)

Fault = Literal[
    "none",
    "raise",
    "refuse",
    "out_of_memory",
    "out_of_memory_late",
    "exit",
    "segfault",
    "kill",
    "hoard",
    "nan",
    "stall",
    "stop",
    "leave",
]


def commit(fault: Fault) -> None:
    """Go wrong."""
    if fault == "raise":
        raise ValueError("the widget is upside down")
    if fault == "refuse":
        raise ConfigError("model.widget=up is not for training")
    if fault.startswith("out_of_memory"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
    if fault == "exit":
        sys.exit(3)
    if fault == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hoard":
        _hoard()
    if fault == "leave":
        os._exit(0)
    if fault == "stall":
        time.sleep(3600)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def _hoard() -> None:
    """Take more memory than a group of this process's own has, so that the kernel kills it."""
    group = Path("/sys/fs/cgroup/memory") / f"shardlab-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(64 << 20))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    hoard = [bytearray(os.urandom(1 << 20)) for _ in range(4096)]
    raise AssertionError(f"{len(hoard)} MiB did not suffice")


class Trap(torch.autograd.Function):
    """The identity, whose backward goes wrong."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, fault: Fault) -> Tensor:
        ctx.fault = fault
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        commit(ctx.fault)
        return grads[0], None


BUILT: list[object] = []
"""What a run would leave behind for the next one in the same process."""


class Faulty(MLP):
    """A perceptron with a fault in the training pass of one step (from 1) on one rank.

    Args:
        fault: `_late` ones happen in the backward, the others in the forward.
        pace_s: what the head takes longer in training.
        hurry: a file; once it is there, it takes no longer.
        note: kept, for its length in the run's name.
        ballast_mb: megabytes that the model holds on to.
        once: a file that the fault leaves; where there is one, it does not happen again.
    """

    is_chain = True  # its faults aside, the forward is the perceptron's

    def __init__(
        self,
        in_features: int,
        classes: int,
        fault: Fault = "none",
        on_rank: int = 1,
        at_step: int = 3,
        pace_s: float = 0.0,
        hurry: str = "",
        note: str = "",
        once: str = "",
        ballast_mb: int = 0,
    ) -> None:
        super().__init__(in_features=in_features, classes=classes, width=8, layers=3)
        BUILT.append(self)
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        log.info("process %d, model %d of it, %d bytes", os.getpid(), len(BUILT), resident)
        log.info("on cores %s", sorted(os.sched_getaffinity(0)))
        self.ballast = torch.ones(ballast_mb * 250_000)
        self.fault: Fault = fault
        self.on_rank = on_rank
        self.at_step = at_step
        self.note = note
        self.once = once
        self.pace_s = pace_s
        self.hurry = hurry
        # Not in `forward`, which a pipeline does not call.
        self.head.register_forward_hook(self._take_time)
        self.passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = super().forward(inputs)
        if not self.training:
            return outputs
        self.passes += 1
        if self.passes == self.at_step and self._guilty():
            if self.fault.endswith("_late"):
                trapped: Tensor = Trap.apply(outputs, self.fault)  # type: ignore[no-untyped-call]
                return trapped
            if self.fault == "nan":
                return outputs * float("nan")
            commit(self.fault)
        return outputs

    def _take_time(self, head: nn.Module, inputs: object, outputs: object) -> None:
        if head.training and not (self.hurry and os.path.exists(self.hurry)):
            time.sleep(self.pace_s)

    def _guilty(self) -> bool:
        if int(os.environ["RANK"]) != self.on_rank:
            return False
        if self.once and os.path.exists(self.once):
            return False
        if self.once:
            Path(self.once).touch()
        return True


class Swallowing(Faulty):
    """A model that takes its own errors for nothing: outputs of zeros in their place."""

    def forward(self, inputs: Tensor) -> Tensor:
        try:
            return super().forward(inputs)
        except ValueError:
            return torch.zeros(len(inputs), self.head.out_features, requires_grad=True)


class Drifting(Faulty):
    """A perceptron whose weight changes on one rank at one step, by no update."""

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training and self.passes + 1 == self.at_step and self._guilty():
            with torch.no_grad():
                self.head.weight[0, 0] += 0.25
        return super().forward(inputs)


class Talkative(MLP):
    """A perceptron that prints and logs on every rank, and warns on rank 1 alone, once."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__(in_features=in_features, classes=classes, width=8, layers=2)
        self.spoke = False

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.spoke:
            self.spoke = True
            print("a print of the model")
            log.info("an info line of the model")
            if os.environ["RANK"] == "1":
                log.warning("a warning of rank 1")
                warnings.warn("a Python warning of rank 1", stacklevel=1)
        outputs: Tensor = super().forward(inputs)
        return outputs


class OddDepth(MLP):
    """A perceptron whose constructor refuses."""

    def __init__(self, in_features: int, classes: int) -> None:
        raise ValueError("depth must be even")


class SlowSamples(Synthetic):
    """Features that take their time to be fetched."""

    def __init__(
        self, pace_s: float, num_workers: int = 0, in_features: int = 64, classes: int = 10
    ) -> None:
        super().__init__(
            kind="features", num_workers=num_workers, in_features=in_features, classes=classes
        )
        self.pace_s = pace_s

    def train_set(self) -> Any:
        return Slow(super().train_set(), self.pace_s)


class Slow:
    def __init__(self, samples: Any, pace_s: float) -> None:
        self.samples = samples
        self.pace_s = pace_s

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.pace_s)
        pair: tuple[Tensor, Tensor] = self.samples[index]
        return pair


class Prepared(Synthetic):
    """Features with a preparation that leaves a line in a file each time it is done.

    Args:
        cache_dir: where the prepared folder and the file are.
        takes_s: how long it takes.
        fails: whether it raises.
        on_host: where it takes so long or fails; everywhere if empty.
    """

    def __init__(
        self,
        cache_dir: str,
        takes_s: float = 0.0,
        fails: bool = False,
        on_host: str = "",
        in_features: int = 64,
        classes: int = 10,
    ) -> None:
        super().__init__(kind="features", in_features=in_features, classes=classes)
        self.cache_dir = Path(cache_dir)
        meant = on_host in ("", socket.gethostname())
        self.takes_s = takes_s if meant else 0.0
        self.fails = fails and meant

    def prepare(self) -> None:
        prepare_once(self.cache_dir / "ready", self._build)

    def _build(self, folder: Path) -> None:
        with (self.cache_dir / "builds.txt").open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(self.takes_s)
        if self.fails:
            raise RuntimeError("the source of the data is gone")


class SlowEvaluation(Synthetic):
    """Features of which those of the evaluation take their time.

    Args:
        begun: a file that is there once an evaluation has begun.
    """

    def __init__(self, pace_s: float, begun: str, in_features: int = 64, classes: int = 10) -> None:
        super().__init__(kind="features", val_samples=64, in_features=in_features, classes=classes)
        self.pace_s = pace_s
        self.begun = Path(begun)

    def val_set(self) -> Any:
        return Marked(super().val_set(), self.pace_s, self.begun)


class Marked(Slow):
    def __init__(self, samples: Any, pace_s: float, begun: Path) -> None:
        super().__init__(samples, pace_s)
        self.begun = begun

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.begun.touch()
        return super().__getitem__(index)


class SlowCommit(Checkpoint):
    """Checkpoints of which one takes its time before it gets its name.

    Args:
        begun: a file that is there once this has happened, and does not happen again.
        at_step: of that checkpoint.
    """

    def __init__(self, every_steps: int, at_step: int, pace_s: float, begun: str) -> None:
        super().__init__(every_steps=every_steps)
        self.at_step = at_step
        self.pace_s = pace_s
        self.begun = Path(begun)

    def saver(
        self, folder: Path, control: Control, timeout_s: float, may_commit: Callable[[], None]
    ) -> Saver:
        meant = folders.place_of(folder, self.at_step).with_suffix(folders.PARTIAL)

        def slowly() -> None:
            may_commit()
            if meant.exists() and not self.begun.exists():
                self.begun.touch()
                time.sleep(self.pace_s)

        return super().saver(folder, control, timeout_s, slowly)
