"""Whether a model takes what its data set gives, found out before it is spread over ranks."""

from __future__ import annotations

import torch
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import IterableDataset

from components.checkpoint.checkpoint import Checkpoint
from components.data.base import Samples
from components.errors import ConfigError
from components.objective import Objective
from train.deterministic import refusing_operation

SAMPLES = 4
LARGEST = 500_000_000
"""Parameters above which one forward on a CPU takes too long to be worth it."""


def rehearse(model: nn.Module, objective: Objective, samples: Samples, config: DictConfig) -> None:
    """One evaluation forward of the plain model on a few samples, on the CPU.

    Only for the project's own models: a user's may count its calls, and its own error is
    the best report of what is wrong in it.

    Raises:
        ConfigError: naming model, data and what does not fit.
    """
    own = type(model).__module__.startswith("components.")
    if not own or isinstance(samples, IterableDataset) or not len(samples):
        return
    if sum(p.numel() for p in model.parameters()) > LARGEST:
        return
    pairs = [samples[index] for index in range(min(SAMPLES, len(samples)))]
    inputs, targets = (torch.stack(list(part)) for part in zip(*pairs, strict=True))
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            outputs = model(inputs).float()
            objective.loss_sum(outputs, targets)
            objective.metrics(outputs, targets)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        if refusing_operation(error):
            raise
        raise ConfigError(
            f"model._target_={config.model._target_} does not take what data._target_="
            f"{config.data._target_} gives: inputs {_shape(inputs)}, targets {_shape(targets)}: "
            f"{str(error).splitlines()[0]}. Choose a model for this data, or give it the sizes "
            "that the data has."
        ) from error
    finally:
        model.train(was_training)


def refuse_deaf_patience(config: DictConfig, val_set: Samples | None) -> None:
    """Refuse an early stop that no evaluation could bring about.

    Raises:
        ConfigError: naming what is missing.
    """
    if config.patience is None:
        return
    if config.eval_every == 0:
        raise ConfigError(
            f"patience={config.patience} stops on evaluations, and eval_every=0 leaves only the "
            "last. Set eval_every, or patience=null."
        )
    if val_set is None:
        raise ConfigError(
            f"patience={config.patience} stops on val/loss, and data._target_="
            f"{config.data._target_} has no validation samples. Set patience=null."
        )


def refuse_deaf_best(checkpoint: Checkpoint, config: DictConfig, val_set: Samples | None) -> None:
    """Refuse to keep the best checkpoints where nothing is evaluated.

    Raises:
        ConfigError: naming what is missing.
    """
    if checkpoint.keep_best and val_set is None:
        raise ConfigError(
            f"checkpoint.keep_best={checkpoint.keep_best} goes by {checkpoint.best_metric}, and "
            f"data._target_={config.data._target_} has no validation samples. Set "
            "checkpoint.keep_best=0."
        )


def _shape(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{tuple(tensor.shape)} {dtype}"
