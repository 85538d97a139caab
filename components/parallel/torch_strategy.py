"""What the strategies built on torch's own autograd loop share: single, dp, ddp, fsdp."""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.objective import Objective
from components.parallel.base import (
    Held,
    MakeOptimizer,
    NamedParameters,
    Parallel,
    Step,
    Sums,
    autocast,
    loss_or_zero,
    mean_buffers,
    merge_over_ranks,
    optimizer_tensors,
    refuse_half_parameters,
    shared_buffers,
)
from components.parallel.outputs import checked_outputs
from components.parallel.shard import Shard
from components.parallel.state import (
    LossScaleState,
    OptimizerState,
    SavedScalars,
    SavedTensors,
    make_state,
    persistent_buffers,
    state_of,
)
from components.parallel.tally import Tally
from components.parallel.update import Shared, Update
from components.precision import Precision


class TorchStrategy(Parallel):
    """A forward and backward per micro-batch, gradients averaged over data-parallel ranks.

    A subclass says how the model is spread (`spread`) and how the averaging is
    held back until the last micro-batch (`sync`).
    """

    def prepare(
        self,
        model: nn.Module,
        objective: Objective,
        make_optimizer: MakeOptimizer,
        precision: Precision,
        ranks: Ranks,
        clip_norm: float | None,
    ) -> None:
        refuse_half_parameters(model, precision)
        self.ranks = ranks
        self.dp_rank = 0 if self.one_process else ranks.rank
        self.dp_size = 1 if self.one_process else ranks.world_size
        self.objective = objective
        self.plain = model
        self.autocast = autocast(precision, ranks)
        self.module = self.spread(model, precision)
        self.named = self.local_parameters()
        self._optimizer = make_optimizer(self.named)
        self.update = Update(
            self._optimizer,
            [p for _, p in self.named if p.requires_grad],
            precision,
            clip_norm,
            ranks.device,
            self.shared(),
        )

    @abstractmethod
    def spread(self, model: nn.Module, precision: Precision) -> nn.Module:
        """Place the model on its device(s); returns the module to call."""

    def sync(self, last: bool) -> AbstractContextManager[None]:
        """A context for one micro-batch: gradients are averaged in it only if it is the last."""
        return nullcontext()

    def shared(self) -> Shared:
        """How ranks agree on a step and add up a norm."""
        return Shared(world=dist.group.WORLD if self.dp_size > 1 else None)

    def local_parameters(self) -> NamedParameters:
        """The (plain name, tensor) pairs that this rank's optimizer updates."""
        return list(self.plain.named_parameters())

    def gather_gradients(self) -> None:
        """Called after the last backward, before the update."""

    @property
    def optimizer(self) -> Optimizer:
        return self._optimizer

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The valid rows' outputs, as fp32, and targets."""
        with self.autocast:
            outputs = self.module(batch.inputs)
        outputs = checked_outputs(outputs, batch.rows, self.plain).float()
        if batch.valid == batch.rows:
            return outputs, batch.targets
        return outputs[: batch.valid], batch.targets[: batch.valid]

    def step(self, micro_batches: list[Batch]) -> Step:
        if not self.module.training:
            self.module.train()
        micro_batches = [batch.to(self.ranks.device) for batch in micro_batches]
        weight = self._loss_weight(micro_batches)
        total: Tensor | None = None
        last = len(micro_batches) - 1
        for index, batch in enumerate(micro_batches):
            with self.sync(index == last):
                # Averaging over ranks divides by dp_size; the weight undoes that once.
                loss = loss_or_zero(self.objective, *self.forward(batch)) * weight
                self.update.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        assert total is not None
        if self.dp_size > 1:
            dist.all_reduce(total)
            total /= self.dp_size
        self.before_update()
        self.gather_gradients()
        norm, applied = self.update.apply(partial(self.gate.admits, total))
        return Step(total, norm, applied, self.update.loss_scale)

    def _loss_weight(self, micro_batches: list[Batch]) -> Tensor | float:
        """dp_size / valid targets in the global batch: makes averaged sums a global mean."""
        counts = [self.objective.count(batch.targets[: batch.valid]) for batch in micro_batches]
        count = counts[0] if len(counts) == 1 else sum(counts)
        if self.dp_size > 1:
            tensor = torch.as_tensor(count, dtype=torch.float32, device=self.ranks.device)
            dist.all_reduce(tensor)
            return self.dp_size / tensor.clamp_(min=1)
        if isinstance(count, Tensor) and count.device.type != "cpu":
            return 1 / count.clamp(min=1)
        return 1 / max(int(count), 1)

    @torch.no_grad()
    def evaluate(self, micro_batches: Iterable[Batch]) -> Sums:
        self.module.eval()
        tally = Tally(self.objective)
        with shared_buffers(self.plain, self.dp_size):
            for batch in micro_batches:
                tally.add(*self.forward(batch.to(self.ranks.device)))
        return merge_over_ranks(tally.sums())

    def full_weights(self) -> dict[str, Tensor]:
        with shared_buffers(self.plain, self.dp_size):
            if not self.ranks.main:
                return {}
            return {
                name: t.detach().to("cpu", copy=True) for name, t in self.plain.state_dict().items()
            }

    def piece(self, name: str, local: Tensor) -> Shard:
        """Where this rank's tensor, cut as the parameter `name` is, lies in the whole one."""
        return Shard.whole(local)

    def weights(self) -> dict[str, Shard]:
        buffers = mean_buffers(self.plain, self.dp_size)
        return {
            **{name: self.piece(name, p) for name, p in self.named},
            **{name: Shard.whole(buffer) for name, buffer in buffers.items()},
        }

    def optimizer_state(self) -> OptimizerState:
        return state_of(self._optimizer, self.named, self.piece)

    def make_optimizer_state(self, tensors: SavedTensors, scalars: SavedScalars) -> None:
        make_state(self._optimizer, self.named, self.piece, tensors, scalars)

    def loss_scale_state(self) -> LossScaleState | None:
        return self.update.loss_scale_state()

    def set_loss_scale(self, state: LossScaleState) -> None:
        self.update.set_loss_scale(state)

    def own_buffers(self) -> dict[str, Tensor]:
        return persistent_buffers(self.plain)

    def held(self) -> Held:
        return Held(
            params=[p for _, p in self.named],
            grads=self.update.gradients,
            optimizer=optimizer_tensors(self._optimizer),
            buffers=list(self.plain.buffers()),
        )

    def reduce_dtype(self) -> str:
        return "float32"

    def close(self) -> None:
        # A reducer or communication hook that is dropped after the process group crashes at exit.
        del self.module, self.plain, self.update, self._optimizer, self.named
        gc.collect()
