"""Whether a step's update may be applied: judged by its loss and gradient norm before it is."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

NORMAL = 1.4826
"""The standard deviation of normal values is so many times their median absolute deviation."""

LEAST = 1e-3
"""Values scatter by this share of their median at least: those that repeat have no spikes."""


@dataclass(frozen=True)
class Verdict:
    """Why a step is not like the others.

    Attributes:
        kind: `nonfinite`, or `spike`.
        cause: in words.
    """

    kind: Literal["nonfinite", "spike"]
    cause: str


class Gate:
    """Judges each step of a run; what a strategy asks before its optimizer moves.

    A step is a spike when its loss or its gradient norm lies above the median of the last `window`
    updates by more than `factor` times their scatter (the median absolute deviation x 1.4826).
    Nothing is judged before so many updates have been seen. A skipped step is not among them.

    Args:
        on_nonfinite: `stop` and `skip` keep an update that is not finite from being applied.
            Under `stop` ranks do not ask each other, and a GPU is not waited for.
        on_spike: `skip` and `stop` keep a spike from being applied; None looks for none.
        factor: of the scatter.
        window: updates.
        agree: whether all ranks say yes. Called on all ranks alike.

    Attributes:
        verdict: on the present step; None when there is nothing about it.
        asked: whether the strategy has asked about it.
    """

    def __init__(
        self,
        on_nonfinite: Literal["stop", "skip"] = "stop",
        on_spike: Literal["warn", "skip", "stop"] | None = None,
        factor: float = 10.0,
        window: int = 50,
        agree: Callable[[bool], bool] = lambda vote: vote,
    ) -> None:
        self.on_nonfinite = on_nonfinite
        self.on_spike = on_spike
        self.factor = factor
        self.agree = agree
        self.verdict: Verdict | None = None
        self.asked = False
        self._losses: deque[float] = deque(maxlen=window)
        self._norms: deque[float] = deque(maxlen=window)

    @property
    def strict(self) -> bool:
        """Whether every step is looked at and all ranks agree on it, whatever that costs."""
        return self.on_nonfinite == "skip" or self.on_spike is not None

    def begin(self) -> None:
        """Before a step."""
        self.verdict, self.asked = None, False

    def admits(self, loss: Tensor, norm: Tensor) -> bool:
        """Whether the update may be applied. Call on all ranks, once a step.

        Args:
            loss: of the global batch, reduced over ranks; a scalar.
            norm: of the global gradient, unscaled; a scalar.
        """
        self.verdict, self.asked = None, True
        if not self.strict and not (loss.is_cpu and norm.is_cpu):
            return True  # the records show it
        values = float(loss), float(norm)
        if not self.strict and math.isfinite(values[0] + values[1]):
            return True
        self.verdict = self._judge(*values)
        admitted = self.verdict is None or self._harmless(self.verdict)
        if self.strict and not self.agree(admitted) and admitted:
            admitted, self.verdict = False, Verdict("spike", "another rank has found a spike")
        if admitted and self.on_spike is not None:
            self._losses.append(values[0])
            self._norms.append(values[1])
        return admitted

    def _harmless(self, verdict: Verdict) -> bool:
        return verdict.kind == "spike" and self.on_spike == "warn"

    def _judge(self, loss: float, norm: float) -> Verdict | None:
        for name, value in (("loss", loss), ("gradient norm", norm)):
            if not math.isfinite(value):
                return Verdict("nonfinite", f"the {name} is {value}")
        if self.on_spike is None:
            return None
        for name, value, known in (
            ("loss", loss, self._losses),
            ("gradient norm", norm, self._norms),
        ):
            if len(known) == known.maxlen:
                median, scatter = middle(known)
                if value > median + self.factor * scatter:
                    return Verdict(
                        "spike",
                        f"the {name} is {value:.6g}, above {median + self.factor * scatter:.6g} = "
                        f"median {median:.6g} + spike_factor={self.factor:g} x scatter "
                        f"{scatter:.3g} of the last {known.maxlen} updates",
                    )
        return None

    def stops(self, verdict: Verdict) -> bool:
        """Whether the run ends with it."""
        chosen = self.on_nonfinite if verdict.kind == "nonfinite" else self.on_spike
        return chosen == "stop"

    @property
    def skips(self) -> bool:
        """Whether steps may be skipped for what this gate finds."""
        return "skip" in (self.on_nonfinite, self.on_spike)

    def state(self) -> dict[str, Any]:
        """What the next verdicts depend on, as plain numbers."""
        return {"losses": [*self._losses], "norms": [*self._norms]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`; of a longer window the last values."""
        self._losses.extend(state["losses"])
        self._norms.extend(state["norms"])


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The median of values, and how far from it they lie usually."""
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    return median, max(NORMAL * deviation, LEAST * abs(median))
