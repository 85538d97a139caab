"""The loss scale under ZeRO against torch's own."""

from __future__ import annotations

import pytest
import torch

from components.parallel.zero_scaler import LossScale
from components.precision import Precision


def fp16(**policy: object) -> Precision:
    settings = {"name": "fp16", "compute_dtype": "float16", "enabled": True, **policy}
    return Precision(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("growth", "backoff", "interval"), [(2.0, 0.5, 3), (1.5, 0.25, 1), (4.0, 0.9, 2)]
)
def test_values_are_those_of_gradscaler(growth: float, backoff: float, interval: int) -> None:
    policy = {"growth_factor": growth, "backoff_factor": backoff, "growth_interval": interval}
    ours = LossScale(fp16(init_scale=512.0, **policy))
    theirs = torch.amp.GradScaler("cpu", init_scale=512.0, **policy)  # type: ignore[arg-type]
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for overflow in [0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1]:
        theirs.scale(weight.sum() * (float("inf") if overflow else 1.0)).backward()
        theirs.step(optimizer)
        theirs.update()
        optimizer.zero_grad()
        ours.update_scale(bool(overflow))
        ours.advance()
        assert ours.cur_scale == pytest.approx(theirs.get_scale(), rel=1e-6)


def test_scale_stands_still_until_the_step_is_over() -> None:
    scale = LossScale(fp16(init_scale=8.0, growth_interval=1))
    scale.update_scale(False)
    assert scale.loss_scale == 8.0
    scale.advance()
    assert scale.loss_scale == 16.0
    assert float(scale.scale_loss(torch.tensor(3.0))) == 48.0


def test_switched_off_scale_stays_one() -> None:
    scale = LossScale(fp16(enabled=False))
    scale.update_scale(True)
    scale.advance()
    assert scale.cur_scale == 1.0
    assert not scale.dynamic
