"""Whether a run's devices have room for it, before it starts."""

from __future__ import annotations

import yaml
from omegaconf import DictConfig, OmegaConf, open_dict

from components.cluster.device_memory import rank_memory
from components.errors import ConfigError
from components.parallel.base import Parallel
from components.precision import Precision
from train.blocks import checkpointing_of
from train.cell import cell_of, sizes_of
from train.fitting import Here, Tight, too_large
from train.forecast import Forecast, forecast
from train.hydra_api import Composer
from train.kinds import build_parallel
from train.meta_model import on_meta
from train.sizes import Sizes


def check_memory(
    config: DictConfig, precision: Precision, parallel: Parallel, here: Here
) -> tuple[Forecast | None, str]:
    """The memory that a run will take, or why that is not known.

    Raises:
        ConfigError: when there is less.
    """
    memory = rank_memory(here.device, here.local_world_size)

    def of(config: DictConfig, parallel: Parallel, step: Sizes) -> Forecast:
        return forecast(config, precision, parallel, step, here.world_size, here.device, memory)

    fixed = config
    if here.elastic and config.micro_batch_size is None:
        # On fewer nodes the micro-batch stays, and accumulation makes up for them.
        fixed = with_words(config, [f"micro_batch_size={here.step.micro_batch_size}"])

    def attempt(words: list[str]) -> Forecast | None:
        try:
            other = with_words(fixed, words)
            parallel = build_parallel(other)
            model = on_meta(other)
            cell = cell_of(
                other, precision, here.device, here.world_size, here.local_world_size, model
            )
            return of(other, parallel, sizes_of(other, parallel, cell))
        except ConfigError:
            return None

    try:
        found = of(config, parallel, here.step)
    except ConfigError as unknown:
        return None, str(unknown)
    if not found.fits and config.memory_check == "refuse":
        cell = Tight(precision.name, parallel.name, checkpointing_of(config), here)
        raise ConfigError(too_large(cell, found, attempt))
    return found, ""


def with_words(config: DictConfig, words: list[str]) -> DictConfig:
    """A resolved config with some other overrides, of the group `parallel` or of single keys."""
    other = config.copy()
    with open_dict(other):
        for word in words:
            key, _, value = word.partition("=")
            if key == "parallel":
                other.parallel = Composer().compose([word]).parallel
            else:
                OmegaConf.update(other, key, yaml.safe_load(value))
    return other
