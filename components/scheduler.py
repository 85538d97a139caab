"""Learning-rate factors for `torch.optim.lr_scheduler.LambdaLR`.

The unit is the update: an optimizer step that changed the weights. The n-th
update, counted from 1, has the factor at n / total_steps of the way, so the
last one has the final factor.

Each function returns a plain function, not an object with attributes:
LambdaLR would keep those in its state, and a resumed run would go on with the
old run's length instead of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from components.errors import ConfigError

Factor = Callable[[int], float]
"""From the number of updates done so far to the factor on the learning rate of the next."""


def constant(total_steps: int, warmup_steps: int | float = 0) -> Factor:
    """1 throughout, after a linear warm-up.

    Args:
        total_steps: updates of the run.
        warmup_steps: a count, or below 1 a share of `total_steps`. The n-th
            update of w has n / w of the learning rate.

    Raises:
        ConfigError: for a warm-up that exceeds the run.
    """
    warmup = as_steps("warmup_steps", warmup_steps, total_steps)
    return lambda done: ramp(done, warmup)


def warmup_cosine(total_steps: int, warmup_steps: int | float, final_ratio: float = 0.0) -> Factor:
    """Linear warm-up, then half a cosine from 1 down to `final_ratio`.

    The shape of Loshchilov & Hutter, 2017 (SGDR, https://arxiv.org/abs/1608.03983)
    without restarts.

    Args:
        total_steps: updates of the run; the factor stays at `final_ratio` afterwards.
        warmup_steps: a count, or below 1 a share of `total_steps`.
        final_ratio: last factor, between 0 and 1.

    Raises:
        ConfigError: for a warm-up that exceeds the run, or a ratio outside [0, 1].
    """
    warmup = as_steps("warmup_steps", warmup_steps, total_steps)
    check_ratio(final_ratio)

    def factor(done: int) -> float:
        progress = fraction(done + 1 - warmup, total_steps - warmup)
        cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
        return ramp(done, warmup) * (final_ratio + (1.0 - final_ratio) * cosine)

    return factor


def warmup_stable_decay(
    total_steps: int,
    warmup_steps: int | float,
    decay_steps: int | float,
    final_ratio: float = 0.0,
) -> Factor:
    """Linear warm-up, a plateau at 1, and a linear decay to `final_ratio` at the end.

    The plateau can be prolonged without deciding the run's length beforehand
    (Hu et al., 2024: MiniCPM, https://arxiv.org/abs/2404.06395).

    Args:
        total_steps: updates of the run; the factor stays at `final_ratio` afterwards.
        warmup_steps, decay_steps: counts, or below 1 shares of `total_steps`.
        final_ratio: last factor, between 0 and 1.

    Raises:
        ConfigError: where warm-up and decay together exceed the run, or for a
            ratio outside [0, 1].
    """
    warmup = as_steps("warmup_steps", warmup_steps, total_steps)
    decay = as_steps("decay_steps", decay_steps, total_steps)
    check_ratio(final_ratio)
    if warmup + decay > total_steps:
        raise ConfigError(
            f"scheduler: warmup_steps={warmup} and decay_steps={decay} together exceed "
            f"steps={total_steps}. Shorten one of them or train longer."
        )

    def factor(done: int) -> float:
        progress = fraction(done + 1 - (total_steps - decay), decay)
        return ramp(done, warmup) * (1.0 - (1.0 - final_ratio) * progress)

    return factor


def ramp(done: int, warmup: int) -> float:
    """The warm-up's factor for the update after `done` ones: n / warmup, at most 1."""
    return min(1.0, (done + 1) / warmup) if warmup else 1.0


def fraction(part: int, whole: int) -> float:
    """part / whole within [0, 1]; the way is over where it has no length."""
    return min(1.0, max(0.0, part / whole)) if whole else float(part > 0)


def as_steps(key: str, value: int | float, total_steps: int) -> int:
    """A count of steps, from a count or a share of `total_steps` below 1.

    Raises:
        ConfigError: naming `scheduler.lr_lambda.<key>`.
    """
    if value < 0 or (value >= 1 and value != int(value)):
        raise ConfigError(
            f"scheduler.lr_lambda.{key}={value} is neither a count of steps nor a share of the "
            "run between 0 and 1."
        )
    steps = int(value) if value >= 1 else round(value * total_steps)
    if steps > total_steps:
        raise ConfigError(
            f"scheduler.lr_lambda.{key}={steps} exceeds steps={total_steps}: the run would end "
            f"before. Lower it (below 1 it is a share of the run), or raise steps."
        )
    return steps


def check_ratio(final_ratio: float) -> None:
    """Refuse a final factor outside [0, 1]."""
    if not 0.0 <= final_ratio <= 1.0:
        raise ConfigError(
            f"scheduler.lr_lambda.final_ratio={final_ratio} must lie between 0 and 1: it is the "
            "share of the learning rate that is left at the end."
        )
