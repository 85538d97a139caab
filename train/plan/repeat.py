"""A trace of many like blocks from a trace of few."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from torch import nn

from components.model.stack import blocks_of, runs_as_chain
from train.plan.trace import Event, copies_by_name

TRACED = 4
"""Blocks that are traced: the first and the last have neighbours of another kind, those in between
have to be the same."""


PLAIN = (bool, int, float, str, bytes, tuple, list, dict, set, frozenset, type(None))
"""Types of settings."""


def shortened(model: nn.Module) -> nn.Module | None:
    """The model with its first few blocks only; None where the others may be different.

    Args:
        model: on the meta device.
    """
    blocks = blocks_of(model)
    if not runs_as_chain(model) or len(blocks) <= TRACED or len({*blocks}) < len(blocks):
        return None
    if any(_looks(block) != _looks(blocks[0]) for block in blocks):
        return None
    short = copy.copy(model)
    short._modules = dict(model._modules)
    short._modules["blocks"] = nn.ModuleList(blocks[:TRACED])
    return short


def _looks(block: nn.Module) -> list[object]:
    """What a block is made of, as far as it can be seen: classes, settings, shapes."""
    modules = [
        (name, type(module), module.extra_repr(), _settings(module))
        for name, module in block.named_modules()
    ]
    tensors = [
        (name, t.shape, t.dtype, t.requires_grad)
        for name, t in (*block.named_parameters(), *block.named_buffers())
    ]
    return [modules, block.training, tensors]


def _settings(module: nn.Module) -> dict[str, object]:
    """What a module was told, as far as it keeps that in plain values or functions."""
    return {
        name: getattr(value, "__qualname__", None) or repr(value)
        for name, value in vars(module).items()
        if name[0] != "_"
        and (isinstance(value, PLAIN) or (callable(value) and not isinstance(value, nn.Module)))
    }


def repeated(events: Sequence[Event], blocks: int) -> list[Event] | None:
    """The events of `blocks` blocks, from those of `TRACED`; None where blocks act differently.

    The events between the begin of the second block and that of the third are the second's:
    the same again for each further block, and likewise in the backward.
    """
    begins = [_position(events, "enter", block) for block in range(TRACED)]
    backs = [_position(events, "back", block) for block in range(TRACED)]
    if None in begins or None in backs:
        return None
    second = events[begins[1] : begins[2]]
    third = events[begins[2] : begins[3]]
    third_back = events[backs[2] : backs[1]]
    second_back = events[backs[1] : backs[0]]
    if _renamed(second, 1, 2) != list(third) or _renamed(second_back, 1, 2) != list(third_back):
        return None
    last, more = TRACED - 1, range(TRACED - 1, blocks - 1)
    head = [*events[: begins[3]], *(e for block in more for e in _renamed(second, 1, block))]
    middle = _between(events[begins[3] : backs[2]], last, more)
    tail = [e for block in reversed(more) for e in _renamed(second_back, 1, block)]
    return [*head, *middle, *tail, *events[backs[2] :]]


def _between(events: Sequence[Event], last: int, more: range) -> list[Event]:
    """The last block's events, forward and backward, and what lies between.

    Autocast may hold each block's copies of weights until then, and let go of all at once.
    """
    out: list[Event] = []
    for event in events:
        block = _block(event[1]) if event[0] == "-" else last
        out += _renamed([event], last, more.stop) if block == last else [event]
        if block == 1:
            out += (e for other in more for e in _renamed([event], 1, other))
    return copies_by_name(out)


def _block(name: str) -> int:
    """The number of the block that a weight is in; -1 outside."""
    part, _, rest = name.partition(".")
    return int(rest.partition(".")[0]) if part == "blocks" else -1


def _position(events: Sequence[Event], kind: str, block: int) -> int | None:
    mark = (kind, f"blocks.{block}")
    return next((at for at, event in enumerate(events) if event[:2] == mark), None)


def _renamed(events: Sequence[Event], old: int, new: int) -> list[Event]:
    """The events with names of block `old`, and its neighbours, moved to block `new`."""
    names = {f"blocks.{old + by}": f"blocks.{new + by}" for by in (-1, 0, 1)}
    out = []
    for kind, name, size, flop in events:
        head = ".".join(name.split(".", 2)[:2])
        out.append((kind, names[head] + name[len(head) :] if head in names else name, size, flop))
    return out
