"""The weights that a run begins with where they are not the model's own: `resume`, `init_from`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig
from torch import nn

from components.checkpoint import folders
from components.checkpoint.weights import FILE
from components.errors import ConfigError

if TYPE_CHECKING:
    from components.checkpoint.sources import Source

# Reading tensors off checkpoints takes imports that most runs can start without.

log = logging.getLogger(__name__)


def source_of(key: str, path: Path) -> Source:
    """The weights at `path`: a checkpoint, a run's folder, or a safetensors file.

    Args:
        key: of the config that names it, for messages.

    Raises:
        ConfigError: when there are none.
    """
    from components.checkpoint import sources

    if path.suffix == ".safetensors":
        if not path.is_file():
            raise ConfigError(f"{key}={path}: there is no such file.")
        return sources.FileSource(path)
    if not path.is_dir():
        raise ConfigError(
            f"{key}={path}: there is no such folder. Give a run's folder, a checkpoint of it "
            "(checkpoints/step-...), or a .safetensors file."
        )
    if folders.is_checkpoint(path):
        return sources.CheckpointSource(path)
    whole = folders.complete(path)
    if whole:
        return sources.CheckpointSource(whole[0][0])
    if (path / FILE).exists():
        return sources.FileSource(path / FILE)
    raise ConfigError(
        f"{key}={path} holds no complete checkpoint and no {FILE}. Give a run's folder, a "
        "checkpoint of it (checkpoints/step-...), or a .safetensors file."
    )


def check_init(config: DictConfig, model: nn.Module) -> None:
    """Refuse weights to start from that do not fit the model, unless `init_strict=false`.

    Args:
        model: may be on the meta device.

    Raises:
        ConfigError: with what is missing, unexpected, or of another shape.
    """
    if config.init_from is None:
        return
    from components.checkpoint import sources

    source = source_of("init_from", Path(config.init_from))
    found = sources.fit(source, model)
    if config.init_strict and not found.exact:
        raise ConfigError(
            f"init_from={source.path} does not fit the model: {found}. Choose the model that "
            "wrote it, or take init_strict=false to load what fits and start the rest afresh."
        )
    if not found.fitting:
        raise ConfigError(
            f"init_from={source.path} has no tensor that fits the model: {found}. Choose the model "
            "that wrote it."
        )


def check_resumed(checkpoint: Path, model: nn.Module) -> None:
    """Refuse to resume a checkpoint of another model.

    Raises:
        ConfigError: with what is missing, unexpected, or of another shape.
    """
    from components.checkpoint import sources

    found = sources.fit(sources.CheckpointSource(checkpoint), model)
    if not found.exact:
        raise ConfigError(
            f"resume={checkpoint} is a checkpoint of another model: {found}. Choose the model "
            f"that wrote it, or start a new run from its weights by init_from={checkpoint}."
        )


def start_weights(config: DictConfig, checkpoint: Path | None, model: nn.Module) -> None:
    """Give the plain model, before it is spread, the weights to begin with.

    Args:
        checkpoint: the one that the run goes on from; then `init_from` was its business.
    """
    from components.checkpoint import sources

    if checkpoint is not None:
        sources.load(sources.CheckpointSource(checkpoint), model)
    elif config.init_from is not None:
        source = source_of("init_from", Path(config.init_from))
        found = sources.fit(source, model)
        number = sources.load(source, model)
        log.info("init_from=%s: %d tensors loaded, %s", source.path, number, found)
        left = [*found.missing, *(name for name, _, _ in found.misshapen)]
        if left:
            log.warning("begun afresh, as init_from has none that fits: %s", ", ".join(left))
