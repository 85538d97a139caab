"""ZeRO stages 1 to 3 through DeepSpeed: optimizer state, + gradients, + parameters are spread.

Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054; offload to the CPU and to NVMe:
Rajbhandari et al., 2021, https://arxiv.org/abs/2104.07857.
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.errors import ConfigError
from components.objective import Objective
from components.parallel.base import (
    Cell,
    Held,
    MakeOptimizer,
    Parallel,
    Step,
    Sums,
    loss_or_zero,
    mean_buffers,
    merge_over_ranks,
    optimizer_tensors,
    refuse_half_parameters,
    shared_buffers,
)
from components.parallel.drift import Replica, constants
from components.parallel.elementwise import refuse_unless_elementwise
from components.parallel.gate import Verdict
from components.parallel.half_parameters import Autocast, compute_as_autocast
from components.parallel.outputs import checked_outputs
from components.parallel.parameters import refuse_parameters, refuse_sparse_gradients
from components.parallel.shard import Shard
from components.parallel.state import (
    LossScaleState,
    OptimizerState,
    SavedScalars,
    SavedTensors,
    persistent_buffers,
)
from components.parallel.tally import Tally
from components.parallel.zero_config import Offload, ZeroOptions, derive
from components.parallel.zero_extra import check_extra
from components.parallel.zero_gate import install
from components.parallel.zero_masters import Masters
from components.parallel.zero_offload import check_nvme, check_offload, refuse_to_save_nvme
from components.parallel.zero_scaler import LossScale
from components.precision import Precision


class Zero(Parallel):
    """One DeepSpeed engine over all ranks, stepped by hand.

    fp32 runs plain. bf16 and fp16 use DeepSpeed's section of that name: parameters in the
    half type, masters and optimizer state in fp32, gradients reduced and accumulated in
    fp32; the loss scale of fp16 is ours.

    Args:
        stage: what is spread: 1 optimizer state, 2 also gradients, 3 also parameters.
        offload_optimizer: where optimizer state and its update live: on the device (`none`),
            in CPU memory, or in files under `nvme_path` (stage 3).
        offload_params: the same for parameters between their uses (stage 3).
        nvme_path: folder for offloaded tensors, on a fast local disk.
        reduce_bucket_size: gradient elements reduced at a time; null: sized to the model.
        allgather_bucket_size: updated elements gathered at a time (stages 1 and 2); null:
            sized to the model.
        prefetch_bucket_size: parameter elements gathered ahead of their use (stage 3);
            null: sized to the model.
        extra: raw DeepSpeed keys, laid over the derived configuration.
    """

    def __init__(
        self,
        stage: Literal[1, 2, 3],
        offload_optimizer: Offload = "none",
        offload_params: Offload = "none",
        nvme_path: str | None = None,
        reduce_bucket_size: int | None = None,
        allgather_bucket_size: int | None = None,
        prefetch_bucket_size: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        if stage not in (1, 2, 3):
            raise ConfigError(
                f"parallel.stage={stage} is not a ZeRO stage: take parallel=zero1, zero2 or zero3; "
                "parallel=ddp spreads the batch alone."
            )
        for key, size in (
            ("reduce_bucket_size", reduce_bucket_size),
            ("allgather_bucket_size", allgather_bucket_size),
            ("prefetch_bucket_size", prefetch_bucket_size),
        ):
            if size is not None and size < 1:
                raise ConfigError(
                    f"parallel.{key}={size} must be a positive number of elements; "
                    "null sizes it to the model."
                )
        self.name = f"zero{stage}"  # one class, three words
        self.options = ZeroOptions(
            stage=stage,
            offload_optimizer=offload_optimizer,
            offload_params=offload_params,
            nvme_path=nvme_path,
            reduce_bucket_size=reduce_bucket_size,
            allgather_bucket_size=allgather_bucket_size,
            prefetch_bucket_size=prefetch_bucket_size,
            extra=extra or {},
        )
        check_offload(self.options)

    def check(self, cell: Cell) -> None:
        if cell.compiled and self.options.stage == 3:
            raise ConfigError(
                "compile=true cannot go with parallel=zero3: DeepSpeed gathers each parameter from "
                "inside a block, by hooks that are not to be compiled. Nearest: parallel=fsdp "
                "compile=true, which holds as little."
            )
        if cell.checkpointing == "selective" and self.options.stage == 3:
            raise ConfigError(
                "model.checkpointing=selective cannot go with parallel=zero3: DeepSpeed gathers "
                "parameters from inside a block, and other ones when it is computed again, so what "
                "was kept does not match. Nearest: parallel=zero3 model.checkpointing=full, or "
                "parallel=fsdp model.checkpointing=selective."
            )
        check_extra(self.options.extra, cell.precision, self.options.stage)
        check_nvme(self.options)
        refuse_parameters(
            cell.model,
            self.name,
            lambda p: p.numel() == 0,
            "have no elements, which DeepSpeed cannot spread",
            "Leave them out of the model, or take parallel=fsdp.",
        )
        refuse_sparse_gradients(cell.model, self.name)

    def deepspeed_config(
        self, model: nn.Module, precision: Precision, device: str, clip_norm: float | None
    ) -> dict[str, Any]:
        """All that `deepspeed.initialize` is given, as plain JSON-able data.

        `model` may be on the meta device; `device` is `cpu` or `cuda`.
        """
        return derive(self.options, model, precision, device, clip_norm)

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
        self.dp_rank, self.dp_size = ranks.rank, ranks.world_size
        self.ranks = ranks
        self.objective = objective
        self.plain = model
        self.scale = LossScale(precision)
        trainable = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        config = self.deepspeed_config(model, precision, ranks.device.type, clip_norm)
        self.config = config
        self.masters = Masters(model, keep=precision.mixed, main=ranks.main)
        called: nn.Module = model
        if precision.mixed:
            compute_as_autocast(model)
            called = Autocast(model, ranks.device.type, precision.compute)
        optimizer = make_optimizer(trainable)
        refuse_unless_elementwise(optimizer, self.name)
        self.engine = _initialize(called, optimizer, config, precision, ranks)
        self.engine.optimizer.loss_scaler = self.scale
        # DeepSpeed makes its masters from the half parameters; the run starts from the model's.
        self.masters.attach(self.engine.optimizer)
        self._gradients: list[Tensor] = []
        if self.gate.strict:
            install(self.engine.optimizer, self._admits)

    @property
    def optimizer(self) -> Optimizer:
        return self.engine.optimizer.optimizer

    def step(self, micro_batches: list[Batch]) -> Step:
        self.engine.train()
        micro_batches = [batch.to(self.ranks.device) for batch in micro_batches]
        count = self._global_count(micro_batches)
        # DeepSpeed averages gradients over the ranks; the weight makes that a global mean.
        weight = (self.dp_size / count).float()
        total = torch.zeros((), device=self.ranks.device)
        for index, batch in enumerate(micro_batches):
            # Said before each forward, because a backward of stages 2 and 3 reduces at once
            # and must know whether to add to what is there or to finish the step.
            self.engine.set_gradient_accumulation_boundary(index == len(micro_batches) - 1)
            loss = loss_or_zero(self.objective, *self._outputs(batch))
            self.engine.backward(loss * weight)
            total += loss.detach()
        if not self._gradients:
            self._gradients = self.masters.gradient_shapes()
        dist.all_reduce(total)
        self._loss = (total / count).float()
        self._refused: Tensor | None = None
        self.before_update()
        self.engine.step()
        self.scale.advance()
        applied = self.engine.was_step_applied()
        if not applied:
            self.masters.drop_skipped_gradients()
            if not self.scale.dynamic and self._refused is None:
                self.gate.verdict = Verdict("nonfinite", "the gradient is not finite")
        norm = self.engine.get_global_grad_norm() if self._refused is None else self._refused
        return Step(
            loss=self._loss,
            grad_norm=torch.as_tensor(norm, dtype=torch.float32, device=self.ranks.device),
            applied=applied,
            loss_scale=self.scale.cur_scale,
        )

    def _admits(self, norm: Tensor) -> bool:
        """Asked before the engine's optimizer moves."""
        if self.gate.admits(self._loss, norm):
            return True
        self._refused = norm
        self.scale.excuse()
        return False

    def _global_count(self, micro_batches: list[Batch]) -> Tensor:
        """Valid targets of the global batch, at least 1, a float64 scalar."""
        local = sum(self.objective.count(batch.targets[: batch.valid]) for batch in micro_batches)
        count = torch.as_tensor(local, device=self.ranks.device).double()
        dist.all_reduce(count)
        return count.clamp(min=1)

    def _outputs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The valid rows' outputs, as fp32, and targets."""
        outputs = checked_outputs(self.engine(batch.inputs), batch.rows, self.plain)
        return outputs.float()[: batch.valid], batch.targets[: batch.valid]

    @torch.no_grad()
    def evaluate(self, micro_batches: Iterable[Batch]) -> Sums:
        self.engine.eval()
        tally = Tally(self.objective)
        with shared_buffers(self.plain, self.dp_size):
            for batch in micro_batches:
                tally.add(*self._outputs(batch.to(self.ranks.device)))
        return merge_over_ranks(tally.sums())

    def full_weights(self) -> dict[str, Tensor]:
        with shared_buffers(self.plain, self.dp_size):
            return self.masters.full_weights()

    def check_saving(self) -> None:
        refuse_to_save_nvme(self.options)

    def weights(self) -> dict[str, Shard]:
        buffers = mean_buffers(self.plain, self.dp_size)
        shared = {name: Shard.whole(buffer) for name, buffer in buffers.items()}
        return {**self.masters.weights(), **shared}

    def optimizer_state(self) -> OptimizerState:
        return self.masters.optimizer_state()

    def make_optimizer_state(self, tensors: SavedTensors, scalars: SavedScalars) -> None:
        self.masters.make_optimizer_state(tensors, scalars)

    def loss_scale_state(self) -> LossScaleState | None:
        return self.scale.state()

    def set_loss_scale(self, state: LossScaleState) -> None:
        self.scale.cur_scale, self.scale.good_steps = state.scale, state.good_steps

    def own_buffers(self) -> dict[str, Tensor]:
        return persistent_buffers(self.plain)

    def held(self) -> Held:
        return Held(
            params=self.masters.parameters(),
            grads=self._gradients,
            master=self.masters.flat(),
            optimizer=optimizer_tensors(self.optimizer),
            buffers=list(self.plain.buffers()),
        )

    def replicas(self) -> list[Replica]:
        if self.dp_size == 1:
            return []
        named = dict(self.plain.named_parameters()) if self.options.stage < 3 else {}
        tensors = {**named, **constants(self.plain)}
        return [Replica(name, tensor, dist.group.WORLD) for name, tensor in tensors.items()]

    def reduce_dtype(self) -> str:
        return str(self.engine.communication_data_type).removeprefix("torch.")

    def files(self) -> dict[str, dict[str, Any]]:
        return {"ds_config.json": self.config}

    def close(self) -> None:
        self.engine.destroy()
        # Hooks and buckets that outlive the process group abort the interpreter at its exit.
        del self.engine, self.plain, self.masters, self._gradients
        gc.collect()
        dist.barrier()


def _initialize(
    model: nn.Module,
    optimizer: Optimizer,
    config: dict[str, Any],
    precision: Precision,
    ranks: Ranks,
) -> Any:
    """A DeepSpeed engine on the process group that exists."""
    # Both are read from the environment only, and the first at import.
    os.environ["DS_ACCELERATOR"] = ranks.device.type
    index = ranks.device.index
    os.environ["LOCAL_RANK"] = str(ranks.local_rank if index is None else index)
    import deepspeed
    from deepspeed.accelerator import get_accelerator

    if ranks.device.type == "cpu":
        # Without this, DeepSpeed compiles a shared-memory collective that it doesn't need.
        deepspeed.ops.__compatible_ops__ = {}
        # Asked at each reduction of stage 3, it starts a program each time to count NUMA nodes.
        accelerator = get_accelerator()
        accelerator.device_count = cache(accelerator.device_count)
        if precision.compute is torch.float16:
            # It refuses fp16 on processors without instructions for it. torch computes
            # it there all the same, slowly, which is what makes fp16 testable anywhere.
            accelerator.is_fp16_supported = lambda: True
    # It still calls collectives by names that torch has replaced: once a step is too often to say.
    warnings.filterwarnings(
        "ignore", r"`torch\.distributed\.\w+` is deprecated", category=FutureWarning
    )
    # It prints memory tables, and warns of every optimizer but Adam. What else it has to say
    # while training is logged from WARNING up.
    logger = deepspeed.utils.logger
    logger.setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()):
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    logger.setLevel(logging.WARNING)
    return engine
