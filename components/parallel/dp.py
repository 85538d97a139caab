"""`nn.DataParallel`: one process that scatters each batch over its GPUs.

Kept as the historical baseline: it copies the weights to every device on every
forward and gathers outputs on the first, which is why DDP took its place
(https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html).
"""

from __future__ import annotations

import logging

import torch
from torch import nn

from components.errors import ConfigError
from components.parallel.base import Cell
from components.parallel.half_parameters import Autocast
from components.parallel.torch_strategy import TorchStrategy
from components.precision import Precision

log = logging.getLogger(__name__)


class DP(TorchStrategy):
    """The batch scattered over all of one process's devices; replicas are threads."""

    name = "dp"
    one_process = True

    def check(self, cell: Cell) -> None:
        super().check(cell)
        if cell.compiled:
            raise ConfigError(
                "compile=true cannot go with parallel=dp, whose replicas run in threads of one "
                "process, and torch compiles in one thread only. Nearest: parallel=ddp, or "
                "parallel=single, with compile=true."
            )

    def spread(self, model: nn.Module, precision: Precision) -> nn.Module:
        model.to(self.ranks.device)
        replicas = torch.cuda.device_count() if self.ranks.device.type == "cuda" else 0
        if replicas < 2:
            log.warning(
                "parallel=dp scatters a batch over the GPUs of one process and found %d: "
                "it computes as parallel=single does here",
                replicas,
            )
        replicated: nn.Module = model
        if precision.mixed:
            # Replicas run in threads: those learn that autocast is on, but not in which type.
            replicated = Autocast(model, self.ranks.device.type, precision.compute)
        return nn.DataParallel(replicated)
