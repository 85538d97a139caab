"""Which part each storage of a running strategy belongs to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from train.plan.holding import PARTS
from train.plan.tracker import Tracker

OF_STRATEGIES = ("/deepspeed/", "/_fully_shard/", "/nn/parallel/", "/distributed/pipelining/")
"""Whose code makes buffers of a strategy."""

PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2)}
"""Products of matrices in aten, and which arguments are multiplied."""


class PartTracker(Tracker):
    """Knows of each storage which code has made it.

    Args:
        products: False leaves out the arithmetic of products of matrices: their results are zeros
            in the same memory, which is all that counts here, and the rest of a step goes on.
    """

    def __init__(self, products: bool = True) -> None:
        super().__init__([])
        self.products = products
        self.origins: dict[int, str] = {}
        self.parts: dict[int, str] = {}
        self.undo: list[Callable[[], None]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        pair = None if self.products else PRODUCTS.get(func._opname)
        if pair is None or func.namespace != "aten" or "out" in (kwargs or {}):
            return super().__torch_dispatch__(func, types, args, kwargs)
        first, second = (args[at] for at in pair)
        result = first.new_zeros(*first.shape[:-1], second.shape[-1])
        self.note(result)
        return result

    def note(self, tensor: Tensor) -> int | None:
        before = self._next
        number = super().note(tensor)
        if self._next > before:
            self.origins[before] = _origin()
        return number

    def claim(self, part: str, tensors: list[Tensor]) -> None:
        """These tensors belong to a part, whoever has made them."""
        for tensor in tensors:
            number = self.note(tensor)
            if number is not None:
                self.parts[number] = part

    def part(self, number: int) -> str:
        """What a storage is for."""
        if number in self.parts:
            return self.parts[number]
        ours = any(where in self.origins[number] for where in OF_STRATEGIES)
        return "strategy_buffers" if ours else "activations"

    def replayed(self, begin: int) -> dict[str, Any]:
        """The largest of each part and of the sum from event `begin` on: `most` and `peak`."""
        now = dict.fromkeys(PARTS, 0)
        most = dict.fromkeys(PARTS, 0)
        peak = 0
        for index, (kind, number, size) in enumerate(self.events):
            now[self.part(number)] += size if kind == "+" else -size
            if index >= begin:
                most = {name: max(most[name], now[name]) for name in PARTS}
                peak = max(peak, sum(now.values()))
        return {"most": most, "peak": peak}


def _origin() -> str:
    """The innermost frame of a strategy's library or of this project."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "_engine_run_backward":
            return ""  # of the model's own backward, whoever has called it
        known = any(name in file for name in OF_STRATEGIES)
        # DeepSpeed's linear layers stand in for torch's.
        if file.endswith(("/zero/linear.py", "/utils/nvtx.py")):
            known = False
        if known or "/components/" in file or "/torch/optim" in file:
            return f"{file}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def watch_gradients(
    strategy: Any, model: nn.Module, tracker: PartTracker, accumulation: int
) -> None:
    """Gradients that the update reads are `grads`; whole ones before a reduction the strategy's."""
    update = getattr(strategy, "update", None)
    if strategy.name in ("fsdp", "hsdp"):
        _watch_whole_gradients(tracker)
    whole = "grads" if strategy.name in ("single", "dp", "pipeline") else "strategy_buffers"
    for p in (strategy.stage if strategy.name == "pipeline" else model).parameters():
        # DDP takes a gradient into its buckets at once where there is one micro-batch.
        if p.requires_grad and not (strategy.name == "ddp" and accumulation == 1):
            p.register_post_accumulate_grad_hook(
                lambda p: None if p.grad is None else tracker.claim(whole, [p.grad])
            )
    if update is not None:
        apply = update.apply

        def noted_apply(*args: Any) -> Any:
            tracker.claim("grads", [p.grad for p in update.params if p.grad is not None])
            return apply(*args)

        update.apply = noted_apply
    else:
        step = strategy.engine.step

        def noted_step() -> None:
            tracker.claim("grads", _zero_gradients(strategy))
            step()

        strategy.engine.step = noted_step


def _watch_whole_gradients(tracker: PartTracker) -> None:
    """FSDP's gradients before their reduction belong to parameters that come and go."""
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    reduce = FSDPParamGroup.post_backward

    def noted_reduce(group: Any, *unused: Any) -> None:
        whole = [getattr(p, "_unsharded_param", None) for p in group.fsdp_params]
        found = [p.grad for p in whole if p is not None and p.grad is not None]
        tracker.claim("strategy_buffers", found)
        del whole, found  # they are dropped within, once they are copied
        reduce(group, *unused)

    FSDPParamGroup.post_backward = noted_reduce
    tracker.undo.append(lambda: setattr(FSDPParamGroup, "post_backward", reduce))


def _zero_gradients(strategy: Any) -> list[Tensor]:
    from components.parallel.zero_masters import (
        BF16_GRADIENTS,
        REDUCED_GRADIENTS,
        STAGE_3_GRADIENTS,
    )

    optimizer = strategy.engine.optimizer
    spread = getattr(optimizer, STAGE_3_GRADIENTS, None)
    if spread is not None:
        return [spread]
    found = list(getattr(optimizer, BF16_GRADIENTS, []))
    for parts in getattr(optimizer, REDUCED_GRADIENTS, {}).values():
        found += parts or []
    return found
