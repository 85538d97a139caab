"""From gradients to an update: unscale, clip, agree, step or skip, move the scale.

Written once for every strategy that runs torch's own optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.optim import Optimizer

from components.parallel.state import LossScaleState
from components.precision import Precision

CLIP_EPS = 1e-6
"""Added to the norm when clipping, as `torch.nn.utils.clip_grads_with_norm_` does."""


@dataclass(frozen=True)
class Shared:
    """How ranks share what `Update` decides.

    Attributes:
        world: group whose ranks must take the same step-or-skip decision; None for one process.
        shards: group over which the gradient is cut into pieces, so that the squared
            norms of the pieces add up; None where each rank holds the whole gradient.
    """

    world: ProcessGroup | None = None
    shards: ProcessGroup | None = None


class Update:
    """One optimizer and its loss scale.

    Args:
        optimizer: updates `params`.
        params: the tensors whose `.grad` this rank updates (local shards where sharded).
        counted: those of `params` whose gradient enters the norm here; all when None.
            A weight that several stages hold counts on one of them.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        params: list[Tensor],
        precision: Precision,
        clip_norm: float | None,
        device: torch.device,
        shared: Shared,
        counted: list[Tensor] | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.params = params
        self.counted = params if counted is None else counted
        self.clip_norm = clip_norm
        self.device = device
        self.shared = shared
        self.scaler = torch.amp.GradScaler(
            device.type,
            init_scale=precision.init_scale,
            growth_factor=precision.growth_factor,
            backoff_factor=precision.backoff_factor,
            growth_interval=precision.growth_interval,
            enabled=precision.scaled,
        )
        if precision.scaled:
            # The scale is made on the first `scale()`, which a pipeline calls on its last
            # stage only; every rank needs it to unscale.
            self.scaler._lazy_init_scale_growth_tracker(device)
        self.gradients: list[Tensor] = []
        """The first step's gradients without their data: for dtypes and sizes in the record."""

    def scale(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        return self.scaler.scale(loss) if self.scaler.is_enabled() else loss

    @property
    def loss_scale(self) -> float:
        """The present scale; 1.0 when the loss is not scaled."""
        return self.scaler.get_scale() if self.scaler.is_enabled() else 1.0

    def loss_scale_state(self) -> LossScaleState | None:
        """Where the scale stands; None when the loss is not scaled."""
        if not self.scaler.is_enabled():
            return None
        state = self.scaler.state_dict()
        return LossScaleState(state["scale"], state["_growth_tracker"])

    def set_loss_scale(self, state: LossScaleState) -> None:
        """Go on from this scale, by this run's own policy."""
        own = self.scaler.state_dict()
        own |= {"scale": state.scale, "_growth_tracker": state.good_steps}
        self.scaler.load_state_dict(own)

    def apply(self, admits: Callable[[Tensor], bool] = lambda norm: True) -> tuple[Tensor, bool]:
        """Take one step from the gradients in place, then drop them.

        Args:
            admits: whether a step of this norm may be applied; not asked of an overflow.

        Returns:
            The unscaled global gradient norm before clipping, and whether the weights changed.
        """
        if not self.gradients:
            self.gradients = [
                torch.empty_like(p.grad, device="meta") for p in self.params if p.grad is not None
            ]
        overflow = self._unscale()
        norm = self._norm()
        applied = not overflow and admits(norm)
        if applied:
            self._clip(norm)
            self.optimizer.step()
        if self.scaler.is_enabled():
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return norm, applied

    def _unscale(self) -> bool:
        """Unscale the gradients once; whether any rank's held an inf or nan."""
        if not self.scaler.is_enabled():
            return False
        self.scaler.unscale_(self.optimizer)
        found = self.scaler._found_inf_per_device(self.optimizer)
        if not found:
            # A stage without gradients still takes part in the decision.
            found[str(self.device)] = torch.zeros((), device=self.device)
        flags = list(found.values())
        if self.shared.world is not None:
            for flag in flags:
                dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=self.shared.world)
        return any(flag.item() for flag in flags)

    def _norm(self) -> Tensor:
        grads = [p.grad for p in self.counted if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads).to(self.device)
        if self.shared.shards is not None:
            # In float64: the square of a finite float32 may not be one.
            squared = norm.double().square()
            dist.all_reduce(squared, group=self.shared.shards)
            norm = squared.sqrt().float()
        return norm

    def _clip(self, norm: Tensor) -> None:
        if self.clip_norm is None:
            return
        # On the CPU the norm can be looked at for free, and a factor of 1 need not be applied.
        # On a GPU looking would wait for the device.
        if self.device.type == "cpu" and norm.item() + CLIP_EPS <= self.clip_norm:
            return
        torch.nn.utils.clip_grads_with_norm_(self.params, self.clip_norm, norm)
