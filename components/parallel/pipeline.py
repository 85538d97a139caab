"""Layers over processes: each rank is one stage of the model's stack.

Every stage sees the same global batch, so the data-parallel degree is 1. A
step's micro-batches flow through `torch.distributed.pipelining` in one
schedule; evaluation only goes forward and needs none.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.errors import ConfigError
from components.model.stack import blocks_of, is_stack, runs_as_chain
from components.objective import Objective
from components.parallel.base import (
    Cell,
    Held,
    MakeOptimizer,
    Parallel,
    Step,
    Sums,
    autocast,
    merge_over_ranks,
    optimizer_tensors,
    refuse_half_parameters,
)
from components.parallel.drift import Replica
from components.parallel.pipeline_stage import (
    PARTS,
    Boundary,
    Stage,
    entries_of,
    find_boundary,
    weights_of,
)
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


class Pipeline(Parallel):
    """Pipeline parallelism over as many stages as there are ranks.

    A weight that several stages use (embeddings tied to the output layer) has a
    copy on each of them: their gradients are added up before the update, which
    is then the same on all, so the copies stay equal.

    Args:
        schedule: `gpipe` runs all forwards of a step and then all backwards
            (Huang et al., 2019, https://arxiv.org/abs/1811.06965); `1f1b` alternates
            and so holds the activations of at most as many micro-batches as stages
            (Narayanan et al., 2021, https://arxiv.org/abs/2104.04473). Same mathematics.
    """

    name = "pipeline"

    def __init__(self, schedule: Literal["gpipe", "1f1b"] = "1f1b") -> None:
        self.schedule = schedule

    def check(self, cell: Cell) -> None:
        if not is_stack(cell.model):
            raise ConfigError(
                f"parallel=pipeline cuts a model into stages, and {type(cell.model).__name__} "
                "does not say where: it needs the children stem, blocks (an nn.ModuleList) and "
                "head, called in this order. Give the model these, or take parallel=fsdp."
            )
        if not runs_as_chain(cell.model):
            raise ConfigError(
                "parallel=pipeline calls a model's stem, blocks and head in turn, never "
                f"its forward, and {type(cell.model).__name__} has a forward of its own, which may "
                "do something else. Subclass components.model.stack.Stack without overriding "
                "forward, or set `is_chain = True` in the class if its forward is "
                "head(blocks(stem(x))). Nearest: parallel=fsdp."
            )
        outside = [
            name for name, _ in cell.model.named_parameters() if name.split(".")[0] not in PARTS
        ]
        if outside:
            raise ConfigError(
                "parallel=pipeline spreads a model's stem, blocks and head, and "
                f"{type(cell.model).__name__} has parameters outside them: "
                f"{', '.join(outside[:8])}. Move them into one of the three, or take parallel=fsdp."
            )
        blocks, stages = len(blocks_of(cell.model)), cell.world_size
        if stages > blocks:
            nodes = min(max(stages // cell.local_world_size, 1), blocks)
            nearest = f"cluster.nproc_per_node={blocks // nodes}"
            if stages > cell.local_world_size:
                nearest = f"cluster.nnodes={nodes} {nearest}"
            raise ConfigError(
                f"parallel=pipeline over {stages} processes makes {stages} stages, and the model "
                f"has {blocks} blocks: each stage needs at least one. Take {nearest}, "
                "or a model with more blocks."
            )

    def check_sizes(self, world_size: int, micro_batch_size: int, accumulation: int) -> None:
        if accumulation >= world_size:
            return
        global_batch = micro_batch_size * accumulation
        fitting = [n for n in range(world_size, global_batch + 1) if global_batch % n == 0]
        if fitting:
            cure = (
                f"accumulation={fitting[0]} micro_batch_size={global_batch // fitting[0]} "
                f"(the same global batch of {global_batch})"
            )
        else:
            cure = f"accumulation={world_size} (a global batch of {micro_batch_size * world_size})"
        raise ConfigError(
            f"accumulation={accumulation} is too few for parallel=pipeline over {world_size} "
            f"processes: a step's micro-batches fill the {world_size} stages, so there must be "
            f"at least {world_size}. Take {cure}, or cluster.nproc_per_node={accumulation}."
        )

    def dp_degree(self, world_size: int) -> int:
        return 1

    def default_accumulation(self, world_size: int) -> int:
        # With m micro-batches over s stages a share (s - 1) / (m + s - 1) of the time is idle.
        return 2 * world_size

    def prepare(
        self,
        model: nn.Module,
        objective: Objective,
        make_optimizer: MakeOptimizer,
        precision: Precision,
        ranks: Ranks,
        clip_norm: float | None,
    ) -> None:
        """As in `Parallel`; takes the parts out of `model`, so that other stages' are freed."""
        refuse_half_parameters(model, precision)
        self.ranks = ranks
        self.objective = objective
        self.first = ranks.rank == 0
        self.last = ranks.rank == ranks.world_size - 1
        self.stage = Stage(model, ranks.rank, ranks.world_size, autocast(precision, ranks)).to(
            ranks.device
        )
        weights = weights_of(model, ranks.world_size)
        self.entries = entries_of(model, ranks.world_size)
        for part in PARTS:
            delattr(model, part)
        self.rest = model.to(ranks.device)  # buffers outside the stack, an objective's for instance

        own = [weight for weight in weights if ranks.rank in weight.stages]
        self.named: list[tuple[str, Tensor]] = [(w.name, w.parameter) for w in own]
        # Ranks of a group must all call new_group, and so must the others, in the same order.
        groups = {
            stages: dist.new_group(list(stages))
            for stages in sorted({weight.stages for weight in weights if len(weight.stages) > 1})
        }
        self.shared_weights = [
            (weight.parameter, groups[weight.stages])
            for weight in own
            if len(weight.stages) > 1 and weight.parameter.requires_grad
        ]
        named = [(weight.name, weight.parameter) for weight in own]
        trainable = {stage for w in weights if w.parameter.requires_grad for stage in w.stages}
        if trainable and ranks.rank not in trainable:
            # The others train on: this stage needs an optimizer too, for the learning rate to
            # be set on, and an optimizer refuses to have no parameters.
            named.append(("placeholder", nn.Parameter(torch.zeros(0, device=ranks.device))))
        self._optimizer = make_optimizer(named)
        world = dist.group.WORLD if ranks.world_size > 1 else None
        self.update = Update(
            self._optimizer,
            [weight.parameter for weight in own if weight.parameter.requires_grad],
            precision,
            clip_norm,
            ranks.device,
            Shared(world=world, shards=world),
            counted=[weight.parameter for weight in own if weight.stages[0] == ranks.rank],
        )
        self._boundaries: dict[tuple[torch.Size, torch.dtype], Boundary] = {}
        self._schedules: dict[tuple[int, Boundary], Any] = {}
        self._micro_batches: list[Batch] = []
        self._weight = 1.0
        self._total = torch.zeros((), device=ranks.device)

    @property
    def optimizer(self) -> Optimizer:
        return self._optimizer

    def step(self, micro_batches: list[Batch]) -> Step:
        self.stage.train()
        batches = [self._place(batch) for batch in micro_batches]
        schedule = self._schedule(len(batches), self._boundary(batches[0]))
        if self.last:
            count = sum(self.objective.count(batch.targets[: batch.valid]) for batch in batches)
            self._weight = 1 / max(int(count), 1)
        self._micro_batches = batches
        self._total = torch.zeros((), device=self.ranks.device)
        # The schedule cuts both arguments into one piece a micro-batch: the rows again, and
        # the micro-batch's own number, by which the last stage finds targets and valid rows.
        inputs = (torch.cat([batch.inputs for batch in batches]),) if self.first else ()
        numbers = torch.arange(len(batches)) if self.last else None
        schedule.step(*inputs, target=numbers, return_outputs=False)
        self._micro_batches = []
        if self.ranks.world_size > 1:
            dist.broadcast(self._total, src=self.ranks.world_size - 1)
        self.before_update()
        for parameter, group in self.shared_weights:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad, group=group)
        norm, applied = self.update.apply(partial(self.gate.admits, self._total))
        return Step(self._total, norm, applied, self.update.loss_scale)

    def _place(self, batch: Batch) -> Batch:
        """On the device where this stage reads any of it."""
        return batch.to(self.ranks.device) if self.first or self.last else batch

    def _boundary(self, batch: Batch) -> Boundary:
        """What passes this stage's ends; found out once for each shape of micro-batch."""
        key = (batch.inputs.shape, batch.inputs.dtype)
        if key not in self._boundaries:
            self._boundaries[key] = find_boundary(self.stage, self.ranks, batch.inputs, self.rest)
        return self._boundaries[key]

    def _schedule(self, count: int, boundary: Boundary) -> Any:
        """The schedule over `count` micro-batches; only the latest, as it holds their buffers."""
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

        key = (count, boundary)
        if key not in self._schedules:
            # Both ends are given: left to itself the stage learns them by a forward of
            # uninitialised memory, which would enter running statistics.
            stage = PipelineStage(
                self.stage,
                self.ranks.rank,
                self.ranks.world_size,
                self.ranks.device,
                input_args=boundary.entering,
                output_args=boundary.leaving,
            )
            make = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[self.schedule]
            self._schedules = {key: make(stage, count, loss_fn=self._micro_loss, scale_grads=False)}
        return self._schedules[key]

    def _micro_loss(self, outputs: Tensor, number: Tensor) -> Tensor:
        """The scaled share of one micro-batch in the step's loss; on the last stage only."""
        batch = self._micro_batches[int(number)]
        loss = self.objective.loss_sum(*_valid(outputs, batch)) * self._weight
        self._total += loss.detach()
        return self.update.scale(loss)

    @torch.no_grad()
    def evaluate(self, micro_batches: Iterable[Batch]) -> Sums:
        self.stage.eval()
        tally = Tally(self.objective)
        sending: dist.Work | None = None
        for batch in micro_batches:
            batch = self._place(batch)
            hidden = batch.inputs
            entering = self._boundary(batch).entering
            if not self.first:
                hidden = torch.empty_like(entering, device=self.ranks.device, requires_grad=False)
                dist.recv(hidden, src=self.ranks.rank - 1)
            hidden = self.stage(hidden)
            if self.last:
                tally.add(*_valid(hidden, batch))
                continue
            if sending is not None:
                sending.wait()
            sending = dist.isend(hidden, dst=self.ranks.rank + 1)
        if sending is not None:
            sending.wait()
        return merge_over_ranks(tally.sums())

    def full_weights(self) -> dict[str, Tensor]:
        own = {**self.rest.state_dict(), **self.stage.state_dict()}
        weights: dict[str, Tensor] = {}
        for entry in self.entries:
            mine = entry.stage == self.ranks.rank
            if self.first:
                if mine:
                    tensor = own[entry.name].detach()
                else:
                    tensor = torch.empty(entry.shape, dtype=entry.dtype, device=self.ranks.device)
                    dist.recv(tensor, src=entry.stage)
                weights[entry.name] = tensor.to("cpu", copy=True)
            elif mine:
                dist.send(own[entry.name].detach().contiguous(), dst=0)
        return weights

    def weights(self) -> dict[str, Shard]:
        tensors = {**dict(self.named), **self.own_buffers()}
        return {name: Shard.whole(tensor) for name, tensor in tensors.items()}

    def optimizer_state(self) -> OptimizerState:
        return state_of(self._optimizer, self.named, _whole)

    def make_optimizer_state(self, tensors: SavedTensors, scalars: SavedScalars) -> None:
        make_state(self._optimizer, self.named, _whole, tensors, scalars)

    def loss_scale_state(self) -> LossScaleState | None:
        return self.update.loss_scale_state()

    def set_loss_scale(self, state: LossScaleState) -> None:
        self.update.set_loss_scale(state)

    def own_buffers(self) -> dict[str, Tensor]:
        return {**persistent_buffers(self.rest), **persistent_buffers(self.stage)}

    def replicas(self) -> list[Replica]:
        names = {parameter: name for name, parameter in self.named}
        return [
            Replica(names[parameter], parameter, group) for parameter, group in self.shared_weights
        ]

    def held(self) -> Held:
        return Held(
            params=list(self.stage.parameters()),
            grads=self.update.gradients,
            optimizer=optimizer_tensors(self._optimizer),
            buffers=[*self.stage.buffers(), *self.rest.buffers()],
        )

    def reduce_dtype(self) -> str:
        return "float32"

    def close(self) -> None:
        # Schedule, stage and loss refer to each other: a collection frees them while the
        # process group is still there. Left to interpreter exit they crash it.
        del self._schedules, self.stage, self.rest, self.update, self._optimizer
        del self.shared_weights, self.named
        gc.collect()


def _valid(outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The valid rows' outputs, as fp32, and targets."""
    return outputs[: batch.valid].float(), batch.targets[: batch.valid]


def _whole(name: str, tensor: Tensor) -> Shard:
    return Shard.whole(tensor)
