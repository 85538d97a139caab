"""A config's model and its traces, shared by the cells that compute alike."""

from __future__ import annotations

from dataclasses import replace

import torch
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import IterableDataset

from components.data.base import Data
from components.errors import ConfigError
from components.objective import Objective
from components.precision import Precision
from train.kinds import build_kind
from train.meta_model import on_meta
from train.plan.fake import shared_by_parts
from train.plan.repeat import repeated, shortened
from train.plan.timeline import Timeline
from train.plan.trace import Event, Sample, Way, trace
from train.unheard import unheard


def sample_of(config: DictConfig, may_read: bool) -> Sample:
    """One sample of the config's data, as shapes.

    Args:
        may_read: whether the data are read where only they tell.

    Raises:
        ConfigError: when they do not tell, and may not be read.
    """
    data: Data = build_kind(Data, config.data, "data")
    pair = data.example()
    if pair is None:
        if not may_read:
            raise ConfigError(
                f"data._target_={config.data._target_} does not say before it is prepared what a "
                "sample looks like; its method `example` could"
            )
        data.prepare()
        samples = data.train_set()
        pair = next(iter(samples)) if isinstance(samples, IterableDataset) else samples[0]
    return Sample(*(torch.empty(t.shape, dtype=t.dtype, device="meta") for t in pair))


class Activations:
    """Models, and timelines by what they depend on: model, data, way. Kept for a cube's cells."""

    def __init__(self) -> None:
        self._models: dict[str, nn.Module] = {}
        self._known: dict[str, Timeline] = {}

    def model(self, config: DictConfig) -> nn.Module:
        """The config's model on the meta device; one for all cells, so nobody may change it.

        Raises:
            ConfigError: for a model that cannot be built, or whose blocks cannot be wrapped.
        """
        key = repr((config.model, config.get("objective"), config.compile))
        if key not in self._models:
            self._models[key] = on_meta(config)
        return self._models[key]

    def timeline(
        self, config: DictConfig, model: nn.Module, objective: Objective, sample: Sample, way: Way
    ) -> Timeline:
        """What a micro-batch of the config's model makes and keeps.

        Asked of a model that cannot be run without data, it raises ConfigError.
        """
        mixed = way.precision.mixed
        # Half types differ in their range, not in what is kept; fp32 has no half copies.
        way = replace(
            way,
            precision=_HALF if mixed else _FULL,
            half=way.half and mixed,
            tied=way.tied or not shared_by_parts(model),
        )
        parts = (config.model, config.data, config.get("objective"))
        key = repr((parts, way))
        if key not in self._known:
            target = config.model._target_
            self._known[key] = Timeline(
                lambda rows: _traced(target, model, objective, sample, rows, way)
            )
        return self._known[key]


def _traced(
    target: str, model: nn.Module, objective: Objective, sample: Sample, rows: int, way: Way
) -> list[Event]:
    try:
        return _events(model, objective, sample, rows, way)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"model._target_={target} cannot be planned for: run on shapes alone, without data, "
            f"it fails with {type(error).__name__}: {(str(error).splitlines() or [''])[0]}. "
            "A model whose operations depend on the values of its inputs has to be tried."
        ) from error


_FULL = Precision(name="fp32", compute_dtype="float32")
_HALF = Precision(name="bf16", compute_dtype="bfloat16")


@unheard()
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
