"""Where a DeepSpeed engine keeps its masters and optimizer state, by the plain module's names.

DeepSpeed flattens the parameters of a group one after the other and cuts the row over the
ranks, anywhere; optimizer state is cut alike. Each rank's piece of a parameter is a run of its
elements, found here from the engine's own tables, without communication.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from components.parallel import state
from components.parallel.shard import Shard
from components.parallel.state import OptimizerState, SavedScalars, SavedTensors, Scalar


@dataclass(frozen=True, eq=False)
class Fragment:
    """One rank's run of a parameter's elements.

    Attributes:
        shape: of the whole parameter.
        start: the first element of it that is here.
        flat: this rank's flat master that holds them, the key of the optimizer's state.
        offset, count: where in `flat`.
    """

    name: str
    shape: torch.Size
    start: int
    flat: Tensor
    offset: int
    count: int

    def of(self, flat: Tensor) -> Shard:
        """The run in a tensor laid out as `flat`: the master itself, or an entry of its state."""
        return Shard.run(flat.detach().narrow(0, self.offset, self.count), self.shape, self.start)


def fragments(model: nn.Module, zero_optimizer: Any, flats: list[Tensor]) -> list[Fragment]:
    """This rank's runs of all trainable parameters.

    Args:
        model: the plain module that the engine trains.
        flats: this rank's flat masters, in the engine's order.
    """
    trainable: list[tuple[str, Any]] = [
        (name, p) for name, p in model.named_parameters() if p.requires_grad
    ]
    if hasattr(zero_optimizer, "grad_position"):
        return [_of_spread(name, p, zero_optimizer, flats) for name, p in trainable]
    return [_of_mapped(name, p, flats) for name, p in trainable if p._hp_mapping is not None]


def _of_spread(name: str, p: Any, zero_optimizer: Any, flats: list[Tensor]) -> Fragment:
    """Stage 3: each parameter is cut by itself into equal parts, the last ones padded."""
    group, offset, part = zero_optimizer.grad_position[zero_optimizer.get_param_id(p)]
    start = min(part * torch.distributed.get_rank(), p.ds_numel)
    count = min(part, p.ds_numel - start)
    return Fragment(name, torch.Size(p.ds_shape), start, flats[group], offset, count)


def _of_mapped(name: str, p: Any, flats: list[Tensor]) -> Fragment:
    """Stages 1 and 2: the row of all parameters is cut into equal parts."""
    mapping = p._hp_mapping
    flat = flats[mapping.param_group_index]
    own, master = mapping.lp_fragment_address, mapping.hp_fragment_address
    return Fragment(name, p.shape, own.start, flat, master.start, own.numel)


def state_of(optimizer: torch.optim.Optimizer, pieces: list[Fragment]) -> OptimizerState:
    """This rank's optimizer state by parameter; a scalar of a flat master is each parameter's."""
    by_name = {piece.name: piece for piece in pieces}
    flats = [(piece.name, piece.flat) for piece in pieces]
    return state.state_of(optimizer, flats, lambda name, value: by_name[name].of(value))


def make_state(
    optimizer: torch.optim.Optimizer,
    pieces: list[Fragment],
    tensors: SavedTensors,
    scalars: SavedScalars,
) -> None:
    """Give each flat master state of the saved layout.

    Its scalars are the furthest of its parameters': only one that took no part in some steps
    lags behind, and a flat master steps as one.
    """
    for flat, names in _by_flat(pieces):
        entries = {entry: saved for name in names for entry, saved in tensors.get(name, {}).items()}
        for entry, saved in entries.items():
            optimizer.state[flat][entry] = torch.zeros_like(
                flat, dtype=saved.dtype, requires_grad=False
            )
        found: dict[str, Scalar] = {}
        for name in names:
            for entry, value in scalars.get(name, {}).items():
                if entry not in found or _number(value) > _number(found[entry]):
                    found[entry] = value
        for entry, value in found.items():
            optimizer.state[flat][entry] = value.clone() if torch.is_tensor(value) else value


def _by_flat(pieces: list[Fragment]) -> Iterator[tuple[Tensor, list[str]]]:
    flats = {id(piece.flat): piece.flat for piece in pieces}
    for key, flat in flats.items():
        yield flat, [piece.name for piece in pieces if id(piece.flat) == key]


def _number(value: Scalar) -> float:
    return float(value) if torch.is_tensor(value) or isinstance(value, int | float) else 0.0
