"""What a config puts around a model's blocks: compilation, then re-computed activations."""

from __future__ import annotations

from omegaconf import DictConfig
from torch import nn

from components.errors import ConfigError
from components.model.compiled import compile_blocks
from components.parallel.activation_checkpointing import Mode, checkpoint_blocks


def checkpointing_of(config: DictConfig) -> Mode:
    """How a config has activations re-computed."""
    mode: Mode = config.model.get("checkpointing", "none")
    return mode


def wrap_blocks(model: nn.Module, config: DictConfig) -> None:
    """Compile the blocks of a model that has just been built, and have them re-compute.

    What is compiled is the block's own forward, so that it is computed a second time in its
    compiled form, and what a strategy puts around the block stays around both.

    Raises:
        ConfigError: when the model has no blocks, or the two do not go together.
    """
    mode = checkpointing_of(config)
    if config.compile:
        if mode == "selective":
            raise ConfigError(
                "model.checkpointing=selective chooses among operations that compile=true makes "
                "one, and which re-computes the cheap ones of its own accord. Take "
                "model.checkpointing=none or full, or compile=false."
            )
        compile_blocks(model)
    checkpoint_blocks(model, mode)
