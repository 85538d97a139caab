"""The loss scale that a DeepSpeed engine asks for, with the policy of `torch.amp.GradScaler`."""

from __future__ import annotations

from torch import Tensor

from components.parallel.state import LossScaleState
from components.precision import Precision


class LossScale:
    """Takes the place of DeepSpeed's own scaler in its ZeRO optimizers.

    DeepSpeed's scaler waits (hysteresis), counts its window from the last overflow and
    has a floor; this one follows `torch.amp.GradScaler` value by value: after an
    overflow x `backoff_factor`, after `growth_interval` good steps in a row
    x `growth_factor`.

    The optimizer calls `update_scale` before it unscales the gradients by `loss_scale`,
    so moving the scale there would shrink the gradients of a step on which it grows.
    `update_scale` therefore only takes note, and `advance` moves the scale once the
    step is over.

    Attributes:
        cur_scale, loss_scale: the present scale (both names are read by DeepSpeed).
        dynamic: whether the scale moves at all.
        good_steps: steps without overflow since the scale last moved.
    """

    def __init__(self, precision: Precision) -> None:
        self.dynamic = precision.scaled
        self.cur_scale = precision.init_scale if precision.scaled else 1.0
        self.growth_factor = precision.growth_factor
        self.backoff_factor = precision.backoff_factor
        self.growth_interval = precision.growth_interval
        self.good_steps = 0
        self._overflow = False
        self._excused = False

    @property
    def loss_scale(self) -> float:
        return self.cur_scale

    def state(self) -> LossScaleState | None:
        """Where the scale stands; None when the loss is not scaled."""
        return LossScaleState(self.cur_scale, self.good_steps) if self.dynamic else None

    def scale_loss(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        return loss * self.cur_scale

    def update_scale(self, overflow: bool) -> None:
        """Note whether the step in progress overflowed on any rank."""
        self._overflow = overflow and not self._excused

    def excuse(self) -> None:
        """The step in progress is to be skipped, and not for an overflow."""
        self._excused = True

    def advance(self) -> None:
        """Move the scale after a step, applied or skipped."""
        self._excused = False
        if not self.dynamic:
            return
        if self._overflow:
            self.cur_scale *= self.backoff_factor
            self.good_steps = 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.cur_scale *= self.growth_factor
            self.good_steps = 0
