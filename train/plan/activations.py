"""Traces of a config's model, shared by the cells that compute alike."""

from __future__ import annotations

from dataclasses import replace

import torch
from omegaconf import DictConfig
from torch import nn

from components.data.base import Data
from components.errors import ConfigError
from components.objective import Objective
from components.precision import Precision
from train.kinds import build_kind
from train.plan.repeat import repeated, shortened
from train.plan.timeline import Timeline
from train.plan.trace import Event, Sample, Way, trace


def sample_of(config: DictConfig) -> Sample:
    """One sample of the config's data, as shapes; reads the data where only they tell."""
    data: Data = build_kind(Data, config.data, "data")
    pair = data.example()
    if pair is None:
        data.prepare()
        samples = data.train_set()
        pair = next(iter(samples)) if not hasattr(samples, "__getitem__") else samples[0]
    return Sample(*(torch.empty(t.shape, dtype=t.dtype, device="meta") for t in pair))


class Activations:
    """Timelines by what they depend on: model, data, way. Kept for the cells of a cube."""

    def __init__(self) -> None:
        self._known: dict[str, Timeline] = {}

    def timeline(
        self, config: DictConfig, model: nn.Module, objective: Objective, sample: Sample, way: Way
    ) -> Timeline:
        """What a micro-batch of the config's model makes and keeps.

        Raises:
            ConfigError: when the model cannot be run without data.
        """
        # Half types differ in their range, not in what is kept.
        way = replace(way, precision=_HALF if way.precision.mixed else _FULL)
        parts = (config.model, config.data, config.get("objective"))
        key = repr((parts, way))
        if key not in self._known:
            try:
                self._known[key] = Timeline(
                    lambda rows: _events(model, objective, sample, rows, way)
                )
            except ConfigError:
                raise
            except Exception as error:
                raise ConfigError(
                    f"model._target_={config.model._target_} cannot be planned for: run on shapes "
                    f"alone, without data, it fails with {type(error).__name__}: "
                    f"{str(error).splitlines()[0] if str(error) else ''}. A model whose operations "
                    "depend on the values of its inputs has to be tried."
                ) from error
        return self._known[key]


_FULL = Precision(name="fp32", compute_dtype="float32")
_HALF = Precision(name="bf16", compute_dtype="bfloat16")


def _events(
    model: nn.Module, objective: Objective, sample: Sample, rows: int, way: Way
) -> list[Event]:
    """A trace, of a few blocks where the others are the same."""
    short = shortened(model)
    if short is not None:
        events = repeated(trace(short, objective, sample, rows, way), len(model.blocks))  # type: ignore[arg-type]
        if events is not None:
            return events
    return trace(model, objective, sample, rows, way)
