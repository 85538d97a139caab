"""The contract of a parallel strategy, and what all strategies share.

A strategy owns the whole optimizer step, because a pipeline fuses forward and
backward. The order of a step is the same everywhere:

    backward of the scaled loss -> gradients reduced on the last micro-batch ->
    unscale once -> clip by the true global norm -> all ranks agree on inf/nan ->
    step or skip -> update the scale -> gradients to None
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.errors import ConfigError
from components.objective import Objective
from components.parallel.drift import Replica
from components.parallel.gate import Gate
from components.parallel.shard import Shard
from components.parallel.state import (
    LossScaleState,
    OptimizerState,
    SavedScalars,
    SavedTensors,
    persistent_buffers,
)
from components.precision import Precision

NamedParameters = list[tuple[str, nn.Parameter]]
MakeOptimizer = Callable[[NamedParameters], Optimizer]
"""Builds the optimizer from the (plain name, parameter) pairs that this rank updates."""


@dataclass(frozen=True)
class Cell:
    """What preflight knows when it asks a strategy whether a run can be.

    Attributes:
        precision: the chosen precision.
        device: `cpu` or `cuda`.
        world_size: ranks over all nodes.
        local_world_size: ranks on this node.
        model: the model on the meta device (shapes and dtypes, no data).
        checkpointing: of activations: `none`, `full`, `selective` or `reentrant`.
        compiled: whether the model's blocks are.
    """

    precision: Precision
    device: str
    world_size: int
    local_world_size: int
    model: nn.Module
    checkpointing: str = "none"
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What one optimizer step did; the same on all ranks.

    Attributes:
        loss: mean over the valid targets of the global batch, unscaled, fp32 scalar.
        grad_norm: 2-norm of the unscaled global gradient before clipping, scalar.
            Not finite when the step has overflowed.
        applied: whether the weights changed; False for a skipped step.
        loss_scale: the scale after the step; 1.0 when the loss is not scaled.
    """

    loss: Tensor
    grad_norm: Tensor
    applied: bool
    loss_scale: float


@dataclass
class Sums:
    """Metric sums and counts of an evaluation, by metric name."""

    totals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, name: str, total: float, count: float) -> None:
        """Add a sum over `count` items."""
        old_total, old_count = self.totals.get(name, (0.0, 0.0))
        self.totals[name] = (old_total + total, old_count + count)

    def merge(self, other: Sums) -> None:
        """Add another rank's sums, name by name."""
        for name, (total, count) in other.totals.items():
            self.add(name, total, count)

    def means(self) -> dict[str, float]:
        """Each metric's mean over the items that had it; one without items is left out."""
        return {name: total / count for name, (total, count) in self.totals.items() if count}


@dataclass
class Held:
    """The live tensors that this rank holds, by purpose: what memory and dtypes are read off.

    Attributes:
        params: the parameters or this rank's shards of them.
        grads: gradients as they stand between the last backward and the update, on the
            meta device once they are freed.
        master: a further fp32 copy, where the strategy keeps one.
        optimizer: optimizer state.
        buffers: the module's buffers.
    """

    params: list[Tensor] = field(default_factory=list)
    grads: list[Tensor] = field(default_factory=list)
    master: list[Tensor] = field(default_factory=list)
    optimizer: list[Tensor] = field(default_factory=list)
    buffers: list[Tensor] = field(default_factory=list)

    def bytes(self) -> dict[str, int]:
        """Bytes by purpose, each storage counted once; a meta tensor stands for one freed since."""
        seen: set[int] = set()
        out: dict[str, int] = {}
        for purpose, tensors in vars(self).items():
            out[purpose] = 0
            for tensor in tensors:
                storage = tensor.untyped_storage()
                if tensor.is_meta:
                    out[purpose] += tensor.nbytes
                elif storage.data_ptr() not in seen:
                    seen.add(storage.data_ptr())
                    out[purpose] += storage.nbytes()
        return out

    def dtypes(self) -> dict[str, str]:
        """The floating dtypes by purpose, as in `float32`; several are joined by a comma."""
        names: dict[str, str] = {}
        for purpose, tensors in vars(self).items():
            # Optimizers keep their step counters as scalars: not state in the sense of memory.
            found = {t.dtype for t in tensors if t.is_floating_point() and t.dim() > 0}
            names[purpose] = ",".join(sorted(str(dtype).removeprefix("torch.") for dtype in found))
        return names


class Parallel(ABC):
    """How a model is spread over ranks, and how one step of it is taken.

    Constructors only keep their options: they run in the controller, where
    nothing may touch a device, and import no strategy library.

    Attributes:
        name: the word on the command line, as in `parallel=fsdp`.
        one_process: whether the strategy lives in a single process.
        dp_rank, dp_size: this rank's place among the data-parallel ranks, all
            that the data layer needs to know. Valid after `prepare`.
        gate: asked by `step` with loss and norm before the optimizer moves. Set before `prepare`.
        before_update: called by `step` when all gradients are there.
    """

    name: str
    one_process: ClassVar[bool] = False

    dp_rank: int = 0
    dp_size: int = 1
    gate: Gate = Gate()
    before_update: Callable[[], None] = staticmethod(lambda: None)

    def check(self, cell: Cell) -> None:  # noqa: B027  (most strategies refuse nothing)
        """Refuse, before any process starts, what this strategy cannot do.

        Raises:
            ConfigError: naming both settings and the nearest that works.
        """

    def check_saving(self) -> None:  # noqa: B027  (most strategies can be saved)
        """Refuse, before any process starts, to be saved in a checkpoint.

        Raises:
            ConfigError: naming both settings and the nearest that works.
        """

    def dp_degree(self, world_size: int) -> int:
        """Data-parallel degree over `world_size` ranks: how many slices a global batch has."""
        return world_size

    def default_accumulation(self, world_size: int) -> int:
        """Micro-batches of a step where the config leaves both sizes open."""
        return 1

    def check_sizes(  # noqa: B027
        self, world_size: int, micro_batch_size: int, accumulation: int
    ) -> None:
        """Refuse sizes of a step that this strategy cannot run.

        Raises:
            ConfigError: naming both numbers and the nearest that works.
        """

    @abstractmethod
    def prepare(
        self,
        model: nn.Module,
        objective: Objective,
        make_optimizer: MakeOptimizer,
        precision: Precision,
        ranks: Ranks,
        clip_norm: float | None,
    ) -> None:
        """Spread the model, build the optimizer, and set `dp_rank` and `dp_size`.

        Args:
            model: plain module on the CPU, fp32, with equal weights on all ranks.
            objective: sums and counts of the loss.
            make_optimizer: called once the parameters that it updates exist.
            precision: enacted here.
            ranks: this process's place; the default process group exists.
            clip_norm: largest global gradient norm; None leaves it unclipped.
        """

    @property
    @abstractmethod
    def optimizer(self) -> Optimizer:
        """The optimizer whose learning rate a schedule moves."""

    @abstractmethod
    def step(self, micro_batches: list[Batch]) -> Step:
        """One optimizer step over this rank's micro-batches of one global batch."""

    @abstractmethod
    def evaluate(self, micro_batches: Iterable[Batch]) -> Sums:
        """Loss and metrics over all ranks' micro-batches, without gradients.

        Every rank passes the same number of micro-batches; padding rows do not
        count. The sums hold `loss` and what the objective adds, equal on all ranks.
        """

    @abstractmethod
    def full_weights(self) -> dict[str, Tensor]:
        """The plain module's state dict, fp32 masters on the CPU. Call on all ranks.

        Complete on rank 0 and empty elsewhere. Buffers that differ between ranks come as
        their mean.
        """

    @abstractmethod
    def weights(self) -> dict[str, Shard]:
        """This rank's pieces of the plain module's parameters and persistent buffers.

        fp32 masters, by plain name, a shared parameter once. Views of live memory, but for
        buffers that differ between ranks: those come as their mean. Call on all ranks.
        """

    @abstractmethod
    def optimizer_state(self) -> OptimizerState:
        """This rank's part of the optimizer's state; views of live memory."""

    @abstractmethod
    def make_optimizer_state(self, tensors: SavedTensors, scalars: SavedScalars) -> None:
        """Give the optimizer, before its first step, state of the saved layout.

        Scalars are set; tensors are zero, for the pieces of `optimizer_state` to be filled.
        A parameter that is not saved keeps none, or zeros.
        """

    @abstractmethod
    def loss_scale_state(self) -> LossScaleState | None:
        """Where the loss scale stands; None without one."""

    @abstractmethod
    def set_loss_scale(self, state: LossScaleState) -> None:
        """Go on from this loss scale. Only where there is one."""

    @abstractmethod
    def own_buffers(self) -> dict[str, Tensor]:
        """This rank's live persistent buffers by plain name. Running statistics may differ."""

    def replicas(self) -> list[Replica]:
        """Tensors that must be equal, to the last bit, on several ranks between two steps.

        Alike on all ranks of each group. A strategy that holds everything once has none.
        """
        return []

    @abstractmethod
    def held(self) -> Held:
        """The live tensors of this rank. Gradients are those of the last step."""

    @abstractmethod
    def reduce_dtype(self) -> str:
        """The type in which gradients travel between ranks, as in `float32`."""

    def files(self) -> dict[str, dict[str, Any]]:
        """Files for the run's folder, by name: what a library under this strategy was told."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Drop what would outlive the process group. Call on all ranks, once."""


def autocast(precision: Precision, ranks: Ranks) -> AbstractContextManager[None]:
    """The region of a forward: matrix products in the compute type. Entered anew for each."""
    if not precision.mixed:
        return nullcontext()
    return torch.autocast(ranks.device.type, dtype=precision.compute)


def refuse_half_parameters(model: nn.Module, precision: Precision) -> None:
    """Refuse trainable parameters that are not fp32.

    A loss scale cannot be undone on half-precision gradients, and updates
    smaller than a half's last bit are lost: fp32 masters are the rule.

    Raises:
        ConfigError: naming the parameters.
    """
    half = [
        f"{name} ({str(p.dtype).removeprefix('torch.')})"
        for name, p in model.named_parameters()
        if p.requires_grad and p.is_floating_point() and p.dtype is not torch.float32
    ]
    if half:
        raise ConfigError(
            f"model: trainable parameters must be float32 under precision={precision.name}, "
            f"which keeps fp32 master weights and casts for compute; found {', '.join(half[:8])}"
            f"{' and more' if len(half) > 8 else ''}. Leave out .half() or .bfloat16(); "
            "frozen parameters (requires_grad=False) may keep a narrower type."
        )


def loss_or_zero(objective: Objective, outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss summed over the valid rows; without any, a zero with a graph.

    A rank whose rows are all padding still runs backward, which takes part in every collective.
    """
    return objective.loss_sum(outputs, targets) if len(targets) else outputs.sum()


def optimizer_tensors(optimizer: Optimizer) -> list[Tensor]:
    """All tensors of an optimizer's state."""
    return [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]


def merge_over_ranks(sums: Sums) -> Sums:
    """All ranks' sums by name. Names need not agree: a rank without one adds nothing to it."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return sums
    gathered: list[Sums | None] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, sums)
    merged = Sums()
    for part in gathered:
        assert part is not None
        merged.merge(part)
    return merged


def mean_buffers(model: nn.Module, dp_size: int) -> dict[str, Tensor]:
    """Persistent buffers as `dp_size` ranks share them: floats by their mean, others as rank 0's.

    Running statistics (BatchNorm) are gathered per rank from its own samples;
    their mean is what one process would have gathered, up to the spread of means.
    Buffers that are equal already keep their exact values. Call on all ranks.
    """
    buffers = persistent_buffers(model)
    if dp_size == 1:
        return buffers
    shared = {}
    for name, buffer in buffers.items():
        if buffer.is_floating_point():
            # In float64 the sum of equal float32 values, and so their mean, is exact.
            mean = buffer.double()
            dist.all_reduce(mean)
            shared[name] = (mean / dp_size).to(buffer.dtype)
        else:
            shared[name] = buffer.clone()
            dist.broadcast(shared[name], src=0)
    return shared


@contextmanager
def shared_buffers(model: nn.Module, dp_size: int) -> Iterator[None]:
    """Inside, persistent buffers are equal on `dp_size` ranks, as `mean_buffers` has them.

    Afterwards each rank has its own again: evaluating or saving more often changes no curve.
    Call on all ranks.
    """
    if dp_size == 1:
        yield
        return
    live = persistent_buffers(model)
    own = {name: buffer.clone() for name, buffer in live.items()}
    _fill(live, mean_buffers(model, dp_size))
    try:
        yield
    finally:
        _fill(live, own)


@torch.no_grad()
def _fill(live: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        live[name].copy_(value)
