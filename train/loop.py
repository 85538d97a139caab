"""The loop: steps, records and evaluations, the same for every strategy and precision."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from components.cluster.place import Phase, Place
from components.data.batch import Batch
from components.errors import ConfigError
from components.parallel.base import Parallel, Step
from components.parallel.gate import Gate, Verdict
from train.divergence import in_a_row, kept_out, never_trained, not_finite
from train.meter import Meter

log = logging.getLogger(__name__)

Report = Callable[[dict[str, Any]], None]


@dataclass
class Progress:
    """How far this rank has come, for whoever has to tell of its end."""

    step: int = 0
    batch_shape: tuple[int, ...] | None = None
    """Of the inputs of a micro-batch."""
    place: Place = field(default_factory=Place)
    """What others see of it."""

    def enter(self, phase: Phase) -> None:
        """Begin something that others may wait for."""
        self.place.enter(phase, self.step)


@dataclass
class Loop:
    """One run's training loop.

    Attributes:
        steps: optimizer steps to take, skipped ones included.
        batches: this rank's micro-batches, a list for each step.
        validation: this rank's micro-batches of one evaluation; None without validation data.
        derive: further metrics from an evaluation's means.
        report: takes each record.
        log_every, eval_every: in steps; `eval_every` 0 evaluates after the last step only.
        max_skips: skipped steps in a row that end the run; None when nothing is skipped.
        gate: what kept a step that was skipped from being applied, other than an overflow.
        compare_replicas: called every `drift_every` steps, where that is not 0; may raise.
        main: whether this rank speaks for all, which judge a step alike.
        patience: evaluations in a row without a lower `val/loss` that end the run; None never.
        on_update: called once, after this attempt's first step that changed the weights.
        progress: steps taken.
        scales: the loss scale after each skipped step of the present row.
        evaluations: `val/loss` of each evaluation so far, reduced over all ranks.
        evaluated: the step of the last evaluation, and its metrics.
        take: takes a step with the strategy.
        boundary: called at the end of each step, when its record and evaluation are out: the place
            to save and to stop.
        watched: passes an evaluation's micro-batches on; may raise to cut it short.
        lower_is_better: the objective's metrics of which the lowest is the best, besides the loss.
        higher_is_better: evaluation metrics that an objective added to the loss.
    """

    parallel: Parallel
    scheduler: LRScheduler
    batches: Iterator[list[Batch]]
    validation: Callable[[], Iterable[Batch]] | None
    derive: Callable[[dict[str, float]], dict[str, float]]
    meter: Meter
    report: Report
    steps: int
    log_every: int
    eval_every: int
    max_skips: int | None
    patience: int | None
    on_update: Callable[[], None]
    progress: Progress
    take: Callable[[Parallel, list[Batch]], Step] = lambda parallel, batches: parallel.step(batches)
    boundary: Callable[[], None] = lambda: None
    watched: Callable[[Iterable[Batch]], Iterable[Batch]] = iter
    gate: Gate = field(default_factory=Gate)
    compare_replicas: Callable[[], None] = lambda: None
    drift_every: int = 0
    main: bool = True
    lower_is_better: Collection[str] = ()
    scales: list[float] = field(default_factory=list)
    evaluations: list[float] = field(default_factory=list)
    evaluated: tuple[int, dict[str, float]] = (-1, {})
    higher_is_better: set[str] = field(default_factory=set)
    _types_noted: bool = False
    _norm: Tensor | None = None

    @property
    def step(self) -> int:
        """Steps taken."""
        return self.progress.step

    def run(self) -> None:
        """Train to the last step.

        Raises:
            Diverged: when going on is pointless.
        """
        if self.step and self._due(self.eval_every) and self.evaluated[0] != self.step:
            self._evaluate()  # the attempt before this one was stopped in it
        while self.step < self.steps and not self.stopped_early():
            self._train_step()
            if self.drift_every and self.step % self.drift_every == 0:
                self.progress.enter("comparison of replicas")
                self.compare_replicas()
            if self.step % self.log_every == 0 or self.step == self.steps:
                self._record()
            if self._due(self.eval_every):
                self._evaluate()
            self.progress.enter("agreement")
            self.boundary()
        if self.meter.pending:
            self._record()

    def check_trained(self) -> None:
        """Refuse to call a run complete that never changed the weights.

        Raises:
            Diverged: when every step was skipped.
        """
        if not self.meter.updates:
            raise never_trained(self.step)

    def stopped_early(self) -> str | None:
        """Why training ends before its last step; None when it does not.

        Decided from reduced numbers alone, so that all ranks decide alike.
        """
        if self.patience is None or len(self.evaluations) <= self.patience:
            return None
        best = min(self.evaluations[: -self.patience])
        if min(self.evaluations[-self.patience :]) < best:
            return None
        return (
            f"val/loss has not fallen below {best:.6g} in {self.patience} evaluation"
            f"{'s' if self.patience > 1 else ''} (last {self.evaluations[-1]:.6g}), patience="
            f"{self.patience}"
        )

    def state(self) -> dict[str, Any]:
        """Where the loop stands, as plain numbers."""
        return {
            "step": self.step,
            "scales": self.scales,
            "evaluations": self.evaluations,
            "evaluated": list(self.evaluated),
            "higher_is_better": sorted(self.higher_is_better),
            "gate": self.gate.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.progress.step = state["step"]
        self.scales, self.evaluations = state["scales"], state["evaluations"]
        step, metrics = state["evaluated"]
        self.evaluated = (step, metrics)
        self.higher_is_better = set(state["higher_is_better"])
        self.gate.restore(state["gate"])

    def _due(self, every: int) -> bool:
        return self.step == self.steps or (every > 0 and self.step % every == 0)

    def _train_step(self) -> None:
        self.progress.enter("data")
        start = time.perf_counter()
        micro_batches = next(self.batches)
        waited = time.perf_counter() - start
        self.progress.batch_shape = tuple(micro_batches[0].inputs.shape)
        self.progress.enter("forward-backward")
        self.gate.begin()
        result = self.take(self.parallel, micro_batches)
        self.progress.step += 1
        if result.applied:
            # The schedule's unit is the update: it moves only when the weights did.
            self.scheduler.step()
            if not self._types_noted:
                self._types_noted = True
                self.on_update()
            self.scales.clear()
        self.meter.add(result, micro_batches, waited)
        self._norm = result.grad_norm
        verdict = self.gate.verdict
        if result.applied and self.gate.strict and not self.gate.asked:
            raise ConfigError(
                f"on_nonfinite={self.gate.on_nonfinite} on_spike={self.gate.on_spike}: parallel="
                f"{self.parallel.name} applies its steps without asking `self.gate.admits(loss, "
                "norm)`, so nothing would be kept out. Take on_nonfinite=stop on_spike=null, or "
                "have the strategy ask."
            )
        if not result.applied:
            self._skipped(result, verdict)
        elif verdict is not None and self.main:
            log.warning("step %d: %s", self.step, verdict.cause)

    def _skipped(self, result: Step, verdict: Verdict | None) -> None:
        """Count skipped steps in a row, or end the run where none is to be skipped."""
        if verdict is None and self.max_skips is None:  # the strategy's own judgement
            verdict = Verdict("nonfinite", f"the gradient norm is {float(result.grad_norm)}")
        if verdict is not None and self.gate.stops(verdict):
            self._record()
            raise kept_out(self.step, verdict)
        if verdict is not None and self.main:
            log.warning("step %d is skipped: %s", self.step, verdict.cause)
        self.scales.append(result.loss_scale)
        if self.max_skips is not None and len(self.scales) >= self.max_skips:
            self._record()
            raise in_a_row(self.step, self.scales, verdict)

    def check_finite(self) -> None:
        """Refuse to save weights that the last step has ruined. Waits for the device.

        Raises:
            Diverged: when its gradient was not finite.
        """
        applied = not self.scales
        if self._norm is not None and applied and not math.isfinite(float(self._norm)):
            norm = float(self._norm)
            raise not_finite(f"the gradient norm is {norm} at step {self.step}, which is not saved")

    def _record(self) -> None:
        record = self.meter.record(float(self.scheduler.get_last_lr()[0]))
        self.report({"step": self.step, **record})
        loss = record["train/loss"]
        if loss is not None and not math.isfinite(loss):
            raise not_finite(f"the training loss is {loss} by step {self.step}")

    def _marked(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """An evaluation's micro-batches, each of which counts as coming on."""
        for batch in batches:
            self.progress.enter("evaluation")
            yield batch

    def _evaluate(self) -> None:
        if self.validation is None:
            return
        self.progress.enter("evaluation")
        start = time.perf_counter()
        means = self.parallel.evaluate(self._marked(self.watched(self.validation()))).means()
        seconds = time.perf_counter() - start
        self.meter.pause(seconds)
        higher = means.keys() - {"loss", *self.lower_is_better}
        self.higher_is_better = {f"val/{name}" for name in higher}
        metrics = {**means, **self.derive(means)}
        named = {f"val/{name}": value for name, value in metrics.items()}
        self.report({"step": self.step, **named, "val/time_s": seconds})
        self.evaluations.append(means["loss"])
        self.evaluated = (self.step, named)
        if not math.isfinite(means["loss"]):
            raise not_finite(f"the validation loss is {means['loss']} at step {self.step}")
