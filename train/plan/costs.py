"""What one operation costs: the bytes that it reads and writes, and what it computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten

OWN: dict[Any, float] = {
    aten._scaled_dot_product_flash_attention_for_cpu: 4.0,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: 10.0,
}
"""Attention on a CPU, which torch's counter leaves out: FLOP by rows x heads x time x time x width.

Two products forward; backward forms the scores again and takes four more, as torch's counter has it
for a GPU's kernels. Not halved for the causal mask."""


WRITTEN = (aten.copy_, aten.zero_, aten.fill_)
"""Operations that only write their first argument."""


class Costs:
    """Knows operations that only look at memory otherwise (views), and those that compute."""

    def __init__(self) -> None:
        self._free: dict[Any, bool] = {}

    def of(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> tuple[str, int, float] | None:
        """(type, bytes, FLOP) of a call; None where it costs nothing."""
        if func not in self._free:
            self._free[func] = _is_free(func)
        if self._free[func]:
            return None
        tensors = list(_tensors((args, tuple(kwargs.values()), result)))
        if not tensors:
            return None
        flop = _flop(func, args, kwargs, result)
        # The first operand's type is that of the product.
        operands = [t for t in _tensors(args) if t.is_floating_point()]
        dtype = str((operands or tensors)[0].dtype).removeprefix("torch.")
        # What is only written is among the arguments too.
        packet = func._overloadpacket
        written = args[:1] if packet in WRITTEN else (kwargs.get("out"),)
        unread = sum(t.nbytes for t in _tensors(written))
        return dtype, sum(t.nbytes for t in tensors) - unread, flop


def _is_free(func: Any) -> bool:
    view = getattr(func, "is_view", False)
    looks = (aten.detach, aten.empty, aten._unsafe_view)
    return view or func.namespace == "prim" or func._overloadpacket in looks


def _flop(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> float:
    packet = func._overloadpacket
    if packet in OWN:
        backward = packet is aten._scaled_dot_product_flash_attention_for_cpu_backward
        query, key = args[1:3] if backward else args[:2]
        rows, heads, time, width = query.shape
        return OWN[packet] * rows * heads * time * key.shape[2] * width
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=result))
    return 0.0


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
