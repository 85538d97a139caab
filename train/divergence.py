"""The ends of a training that cannot go on, in words."""

from __future__ import annotations

from collections.abc import Sequence

from components.parallel.gate import Verdict

CURES = {
    "nonfinite": "Lower optimizer.lr, or look for an input or an operation that gives inf or nan",
    "spike": "Lower optimizer.lr, look at this step's samples, or raise spike_factor",
}


class Diverged(Exception):
    """Training cannot go on: the loss or its gradient is not finite, or every step is skipped."""


def not_finite(what: str) -> Diverged:
    """A number that was not kept out: `what` says which, and when."""
    return Diverged(f"{what}. {CURES['nonfinite']}")


def kept_out(step: int, verdict: Verdict) -> Diverged:
    """The gate has refused a step, and the run ends with it."""
    return Diverged(
        f"step {step} would have ruined the weights, and was not applied: {verdict.cause}. "
        f"{CURES[verdict.kind]}"
    )


def in_a_row(step: int, scales: Sequence[float], verdict: Verdict | None) -> Diverged:
    """Too many steps have been skipped one after the other.

    Args:
        scales: the loss scale after each.
        verdict: on the last; None when it has overflowed.
    """
    number = f"{len(scales)} steps in a row"
    if verdict is not None:
        return Diverged(
            f"{number} were skipped, up to step {step}; the last one because {verdict.cause}. "
            f"{CURES[verdict.kind]}, or raise precision.max_consecutive_skips"
        )
    history = " -> ".join(f"{scale:g}" for scale in scales)
    return Diverged(
        f"{number} overflowed in fp16 and were skipped, up to step {step}; the loss scale went "
        f"{history}. Take precision=bf16, lower optimizer.lr, or raise "
        "precision.max_consecutive_skips"
    )


def never_trained(step: int) -> Diverged:
    """No step has changed the weights."""
    return Diverged(
        f"none of the {step} steps changed the weights: all were skipped, in fp16 for an overflow. "
        "Take more steps; in fp16 a lower precision.init_scale, or precision=bf16"
    )
