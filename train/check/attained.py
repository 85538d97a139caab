"""What share of its own best a device attains in a model's step: kernels that are small, or not
matrix products, stay behind the rates that large products reach."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch.nn import functional as F

from components.cluster.control import Control
from components.device import Device
from components.model.gpt import GPT
from components.precision import Precision
from train.check.timing import seconds_per_call
from train.plan.costs import Costs
from train.plan.seconds import compute_seconds
from train.plan.tracker import Tracker

ROWS, TIME, VOCAB = 4, 128, 256
"""Of the batch: sequences, their tokens, kinds of tokens."""

TRIES = 5


def attained(control: Control, device: Device) -> dict[str, float]:
    """The least time of a small GPT's forward and backward, by the device's best, over the real
    one; by type. All ranks compute at once. Collective.

    Args:
        device: with what was measured of it.
    """
    return {name: _share(control, device, name) for name in device.flops}


def _share(control: Control, device: Device, name: str) -> float:
    place = control.ranks.device
    precision = Precision(name=name, compute_dtype=name)  # type: ignore[arg-type]
    model = GPT(vocab_size=VOCAB, seq_len=TIME, layers=2, heads=4, width=128, ffn_size=512)
    model.to(place)
    ids = torch.randint(VOCAB, (ROWS, TIME), device=place)

    def step() -> None:
        with torch.autocast(place.type, dtype=precision.compute, enabled=name != "float32"):
            outputs = model(ids)
        F.cross_entropy(outputs.float().flatten(0, 1), ids.flatten()).backward()
        model.zero_grad()

    step()
    least = compute_seconds(_operations(step), device, precision)
    assert least is not None
    control.highest(0)  # all at once, as in a run
    real = statistics.median(seconds_per_call(step, place) for _ in range(TRIES))
    return min(1.0, least / real)


def _operations(step: Any) -> list[tuple[str, str, int, float]]:
    """What a step computes, as a plan counts it."""
    found: list[tuple[str, str, int, float]] = []
    costs, tracker = Costs(), Tracker([])

    def note(*call: Any) -> None:
        cost = costs.of(*call)
        if cost is not None:
            found.append(("op", *cost))

    tracker.called = note
    with tracker:
        step()
    return found
