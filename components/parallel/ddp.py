"""`DistributedDataParallel`: the batch is spread, everything else is replicated."""

from __future__ import annotations

import importlib
import inspect
import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from components.data.batch import Batch
from components.errors import ConfigError
from components.parallel.base import Cell
from components.parallel.drift import Replica, constants
from components.parallel.parameters import refuse_sparse_gradients
from components.parallel.torch_strategy import TorchStrategy
from components.precision import Precision

log = logging.getLogger(__name__)

STEPS_WITHOUT_UNUSED = 20
"""After so many steps in which the search found nothing, say once that it can go."""


class DDP(TorchStrategy):
    """Replicas of the model, their gradients averaged in buckets while backward runs.

    Args:
        bucket_cap_mb: size of a bucket of gradients, MiB.
        gradient_as_bucket_view: gradients live in the buckets: one copy less.
        static_graph: the same parameters take part in every step.
        find_unused_parameters: search each step for parameters without a gradient.
        comm_hook: dotted path of a communication hook, as in
            `components.parallel.comm_hooks.bf16_compress`.
    """

    name = "ddp"

    def __init__(
        self,
        bucket_cap_mb: int = 25,
        gradient_as_bucket_view: bool = True,
        static_graph: bool = False,
        find_unused_parameters: bool = False,
        comm_hook: str | None = None,
    ) -> None:
        self.bucket_cap_mb = bucket_cap_mb
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.find_unused_parameters = find_unused_parameters
        self.comm_hook = comm_hook
        self._steps = 0

    def check(self, cell: Cell) -> None:
        if self.bucket_cap_mb < 1:
            raise ConfigError(
                f"parallel.bucket_cap_mb={self.bucket_cap_mb} must be at least 1 MiB: gradients "
                "are reduced in buckets of this size. Nearest: parallel.bucket_cap_mb=1."
            )
        if self.comm_hook is not None:
            self._refuse_unfit_hook()
        refuse_sparse_gradients(cell.model, self.name)
        if self.find_unused_parameters and cell.checkpointing == "reentrant":
            raise ConfigError(
                "model.checkpointing=reentrant cannot go with "
                "parallel.find_unused_parameters=true: re-entrant backward marks parameters ready "
                "twice. Take model.checkpointing=full, or "
                "parallel.find_unused_parameters=false."
            )

    def _hook(self) -> Any:
        assert self.comm_hook is not None
        module, _, attribute = self.comm_hook.rpartition(".")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"parallel.comm_hook={self.comm_hook} does not resolve: {error}. Give the dotted "
                "path of a hook, as in components.parallel.comm_hooks.bf16_compress."
            ) from error

    def _refuse_unfit_hook(self) -> None:
        try:
            inspect.signature(self._hook()).bind("state", "bucket")
        except TypeError as error:
            raise ConfigError(
                f"parallel.comm_hook={self.comm_hook} cannot be called with (state, bucket): "
                f"{error}. Name a hook of these two arguments, as "
                "components.parallel.comm_hooks.bf16_compress."
            ) from error

    def spread(self, model: nn.Module, precision: Precision) -> nn.Module:
        model.to(self.ranks.device)
        if not any(p.requires_grad for p in model.parameters()):
            return model
        self.ddp = DistributedDataParallel(
            model,
            device_ids=[self.ranks.device] if self.ranks.device.type == "cuda" else None,
            bucket_cap_mb=self.bucket_cap_mb,
            gradient_as_bucket_view=self.gradient_as_bucket_view,
            static_graph=self.static_graph,
            find_unused_parameters=self.find_unused_parameters,
            # Buffers are made equal before they are read (evaluation, saving), not on every
            # forward: a broadcast then would throw away the other ranks' statistics.
            forward_sync_buffers=False,
        )
        if self.comm_hook is not None:
            self.ddp.register_comm_hook(dist.group.WORLD, self._hook())
        return self.ddp

    def sync(self, last: bool) -> AbstractContextManager[None]:
        # A static graph records its first backward, and it has to be one that synchronises.
        # Averaging an average changes nothing, so the sum stays right.
        if last or (self.static_graph and self._steps == 0):
            return nullcontext()
        return self.ddp.no_sync()

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        try:
            return super().forward(batch)
        except RuntimeError as error:
            if "finished reduction" not in str(error):
                raise
            raise ConfigError(_unused_message([])) from error

    def gather_gradients(self) -> None:
        unused = [name for name, p in self.named if p.requires_grad and p.grad is None]
        self._steps += 1
        if unused and not self.find_unused_parameters and not self.static_graph:
            raise ConfigError(_unused_message(unused))
        if self.find_unused_parameters:
            if unused:
                self._steps = 0
            elif self._steps == STEPS_WITHOUT_UNUSED:
                log.info(
                    "parallel.find_unused_parameters=true found none in %d steps: "
                    "without it each step saves a pass over the graph",
                    STEPS_WITHOUT_UNUSED,
                )

    def replicas(self) -> list[Replica]:
        if self.dp_size == 1:
            return []
        tensors = {**dict(self.named), **constants(self.plain)}
        return [Replica(name, tensor, dist.group.WORLD) for name, tensor in tensors.items()]

    def reduce_dtype(self) -> str:
        return "float32" if self.comm_hook is None else f"by {self.comm_hook}"

    def close(self) -> None:
        del self.ddp
        super().close()


def _unused_message(names: list[str]) -> str:
    which = ", ".join(names[:12]) + (" and more" if len(names) > 12 else "")
    return (
        "parallel=ddp: parameters without a gradient took no part in the loss"
        f"{': ' + which if which else ''}. DDP waits for every parameter's gradient: "
        "take them out of the model, freeze them (requires_grad=False), or set "
        "parallel.find_unused_parameters=true, which searches for them in every step."
    )
