"""What a strategy takes from a model: one floating tensor with a row for each row of the inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from components.errors import ConfigError


def checked_outputs(outputs: Any, rows: int, model: nn.Module) -> Tensor:
    """The outputs as they are, if an objective can be asked about them.

    Looks at type and shape only, so it waits for no device.

    Args:
        outputs: what `model` returned.
        rows: rows of the inputs, padding included.
        model: whose outputs they are, for the message.

    Raises:
        ConfigError: naming the model and what it returned.
    """
    fits = torch.is_tensor(outputs) and outputs.is_floating_point() and outputs.dim() > 0
    if fits and outputs.shape[0] == rows:
        return outputs
    raise ConfigError(
        f"model {type(model).__name__} returned {_said(outputs)} for {rows} rows of inputs. A "
        f"model gives one floating tensor of shape (rows, ...), here ({rows}, ...), to which "
        "its objective is applied: return that alone from its forward."
    )


def _said(outputs: Any) -> str:
    """A few words for a value of any kind."""
    if torch.is_tensor(outputs):
        dtype = str(outputs.dtype).removeprefix("torch.")
        return f"a {dtype} tensor of shape {tuple(outputs.shape)}"
    if isinstance(outputs, (tuple, list)):
        return f"a {type(outputs).__name__} of {len(outputs)}"
    return "None" if outputs is None else f"a {type(outputs).__name__}"
