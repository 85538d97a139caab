"""What the loop has done since it last said so: losses, rates, waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from components.data.batch import Batch
from components.parallel.base import Step


@dataclass(frozen=True)
class Scale:
    """What turns steps into rates, over all ranks.

    Attributes:
        flops: forward and backward of one sample; None when the model does not say.
        peak_flops: of all devices together, FLOP/s; None when unknown.
    """

    flops: float | None = None
    peak_flops: float | None = None


class Meter:
    """Adds up steps between two training records, and the whole run's rate.

    Args:
        scale: turns steps into rates.
        over_ranks: turns this rank's samples into all ranks'. Called on all ranks, once a record.

    Losses are added on the device, in float64 where it has it: nothing waits for
    them before a record is due.
    """

    def __init__(self, scale: Scale, over_ranks: Callable[[int], int]) -> None:
        self.scale = scale
        self.over_ranks = over_ranks
        self.tokens: int | None = None
        self.samples = 0
        self.samples_before = 0
        self.skipped = 0
        self.updates = 0
        self.measured_steps = 0
        self.measured_samples = 0
        self.measured_time = 0.0
        self._first = True
        self._told = 0
        self._reset()

    @property
    def pending(self) -> bool:
        """Whether steps have been added since the last record."""
        return self._steps > 0

    def _reset(self) -> None:
        self._loss: Tensor | float = 0.0
        self._losses = 0
        self._steps = 0
        self._paused = 0.0
        self._waited = 0.0
        self._last: Step | None = None
        self._start = time.perf_counter()

    def add(self, step: Step, micro_batches: list[Batch], waited: float) -> None:
        """One more step over this rank's micro-batches, which took `waited` seconds to arrive."""
        if self._steps == 0:
            targets = micro_batches[0].targets
            sequence = targets.dim() > 1 and not targets.is_floating_point()
            self.tokens = targets[0].numel() if sequence else None
        self._steps += 1
        for batch in micro_batches:
            self.samples += batch.valid
        self._waited += waited
        self._last = step
        if step.applied:
            self.updates += 1
            self._loss = self._loss + step.loss.double()
            self._losses += 1
        else:
            self.skipped += 1

    def total_samples(self) -> int:
        """Samples consumed over all ranks, by earlier attempts too. Call on all ranks."""
        return self.samples_before + self.over_ranks(self.samples)

    def state(self) -> dict[str, Any]:
        """All of it as plain numbers, the present window included. Call on all ranks."""
        last = self._last
        return {
            "samples": self.total_samples(),
            "told": self._told,
            "updates": self.updates,
            "skipped": self.skipped,
            "measured": [self.measured_steps, self.measured_samples, self.measured_time],
            "first": self._first,
            "tokens": self.tokens,
            "window": {
                "loss": float(self._loss),
                "losses": self._losses,
                "steps": self._steps,
                "waited": self._waited,
                "elapsed": time.perf_counter() - self._start - self._paused,
                "grad_norm": None if last is None else float(last.grad_norm),
                "loss_scale": None if last is None else last.loss_scale,
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`, on any number of ranks."""
        window = state["window"]
        self.samples_before = state["samples"]
        self._told = state["told"]
        self.updates, self.skipped = state["updates"], state["skipped"]
        self.measured_steps, self.measured_samples, self.measured_time = state["measured"]
        self._first, self.tokens = state["first"], state["tokens"]
        self._loss, self._losses, self._steps = window["loss"], window["losses"], window["steps"]
        self._waited, self._paused = window["waited"], 0.0
        self._start = time.perf_counter() - window["elapsed"]
        if window["grad_norm"] is not None:
            norm = torch.tensor(window["grad_norm"])
            self._last = Step(torch.tensor(0.0), norm, True, window["loss_scale"])

    def pause(self, seconds: float) -> None:
        """Leave `seconds` (an evaluation) out of the rates."""
        self._paused += seconds

    def record(self, lr: float) -> dict[str, Any]:
        """A training record over the steps since the last one. Waits for the device."""
        assert self._last is not None
        # A window of skipped steps alone has no loss that means anything.
        loss = float(self._loss) / self._losses if self._losses else None
        norm = float(self._last.grad_norm)
        elapsed = time.perf_counter() - self._start - self._paused
        step_time = elapsed / self._steps
        # What was really consumed: the last step of an epoch may have fewer samples.
        samples = self.total_samples()
        window, self._told = samples - self._told, samples
        if not self._first:  # the first window holds warm-up: allocations, compilation
            self.measured_steps += self._steps
            self.measured_time += elapsed
            self.measured_samples += window
        rate = window / elapsed
        record = {
            "train/loss": loss,
            "train/grad_norm": norm,
            "lr": lr,
            "loss_scale": self._last.loss_scale,
            "skipped_steps": self.skipped,
            "samples": samples,
            "samples_per_s": rate,
            "tokens_per_s": None if self.tokens is None else rate * self.tokens,
            "step_time_s": step_time,
            "data_wait_share": self._waited / elapsed if elapsed > 0 else 0.0,
            **self._flops(rate),
        }
        self._first = False
        self._reset()
        return record

    def _flops(self, rate: float) -> dict[str, float]:
        if self.scale.flops is None:
            return {}
        achieved = rate * self.scale.flops
        mfu = {} if self.scale.peak_flops is None else {"mfu": achieved / self.scale.peak_flops}
        return {"model_flops_per_s": achieved, **mfu}

    def throughput(self) -> dict[str, Any]:
        """The whole run's mean rates, its first window left out where there is a second."""
        if not self.measured_steps:
            return {}
        step_time = self.measured_time / self.measured_steps
        rate = self.measured_samples / self.measured_time
        return {
            "step_time_s": step_time,
            "samples_per_s": rate,
            "tokens_per_s": None if self.tokens is None else rate * self.tokens,
            **self._flops(rate),
        }
