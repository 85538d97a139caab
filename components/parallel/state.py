"""What a strategy hands out to be saved, and takes back: by the plain module's names, in fp32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from components.parallel.shard import Shard

Scalar = Tensor | int | float | bool | str
"""An optimizer's entry that is no tensor of elements: a 0-dim tensor on the CPU, or plain."""

Piece = Callable[[str, Tensor], Shard]
"""From a parameter's name and this rank's part of a tensor of its shape to the shard."""


@dataclass(frozen=True)
class Layout:
    """A tensor as it was saved."""

    shape: torch.Size
    dtype: torch.dtype


@dataclass
class OptimizerState:
    """An optimizer's state on this rank, by parameter name and then by entry (`exp_avg`, `step`).

    Attributes:
        tensors: views of live memory.
        scalars: what is kept once for each parameter.
    """

    tensors: dict[str, dict[str, Shard]] = field(default_factory=dict)
    scalars: dict[str, dict[str, Scalar]] = field(default_factory=dict)


@dataclass(frozen=True)
class LossScaleState:
    """Where a dynamic loss scale stands: its value, and good steps since it last moved."""

    scale: float
    good_steps: int


SavedTensors = Mapping[str, Mapping[str, Layout]]
SavedScalars = Mapping[str, Mapping[str, Scalar]]


def persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers that a state dict holds, live, by plain name."""
    names = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers() if name in names}


def state_of(
    optimizer: Optimizer, named: Sequence[tuple[str, Tensor]], piece: Piece
) -> OptimizerState:
    """The state that a torch optimizer keeps for these (plain name, updated tensor) pairs."""
    out = OptimizerState()
    for name, p in named:
        for entry, value in optimizer.state.get(p, {}).items():
            if torch.is_tensor(value) and value.dim() > 0:
                own = piece(name, value) if value.shape == p.shape else Shard.whole(value)
                out.tensors.setdefault(name, {})[entry] = own
            elif torch.is_tensor(value):
                out.scalars.setdefault(name, {})[entry] = value.detach().to("cpu", copy=True)
            elif value is not None:
                out.scalars.setdefault(name, {})[entry] = value
    return out


def make_state(
    optimizer: Optimizer,
    named: Sequence[tuple[str, Tensor]],
    piece: Piece,
    tensors: SavedTensors,
    scalars: SavedScalars,
) -> None:
    """Give a torch optimizer, before its first step, state of the saved layout, to be filled.

    Scalars have their saved values at once. They stay on the CPU unless the optimizer runs
    fused or captured, which wants them beside the parameter.
    """
    beside = {
        p: bool(group.get("fused") or group.get("capturable"))
        for group in optimizer.param_groups
        for p in group["params"]
    }
    for name, p in named:
        if p not in beside or not (name in tensors or name in scalars):
            continue
        whole = piece(name, p).shape
        state = optimizer.state[p]
        for entry, saved in tensors.get(name, {}).items():
            if saved.shape == whole:
                state[entry] = torch.zeros_like(p, dtype=saved.dtype, requires_grad=False)
            else:
                state[entry] = torch.zeros(saved.shape, dtype=saved.dtype, device=p.device)
        for entry, value in scalars.get(name, {}).items():
            if torch.is_tensor(value):
                value = value.to(p.device if beside[p] else "cpu", copy=True)
            state[entry] = value
