"""What a rank's tensors really take while a strategy steps, by part, counted storage by storage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.model.gpt import GPT
from components.objective import CrossEntropy
from components.optimizer import build_optimizer
from components.parallel.activation_checkpointing import checkpoint_blocks
from components.precision import Precision
from tests.gang import STRATEGIES, alone, prepared, run
from train.plan.facts import facts_of
from train.plan.holding import PARTS, Holding, Share
from train.plan.optimizer_cost import cost_of
from train.plan.strategies import kind_of
from train.plan.trace import Sample, trace
from train.plan.tracker import Tracker

STEPS = 4
"""The last one counts: libraries grow their buffers in the first."""

ADAMW = partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1, fused=True)

OF_STRATEGIES = ("/deepspeed/", "/_fully_shard/", "/nn/parallel/", "/distributed/pipelining/")
"""Whose code makes buffers of a strategy."""


def nano(
    layers: int = 4,
    width: int = 96,
    vocab: int = 256,
    time: int = 128,
    ffn: int = 256,
    heads: int = 2,
    **others: Any,
) -> GPT:
    """`model=gpt_nano`, or one like it."""
    return GPT(
        vocab_size=vocab,
        seq_len=time,
        layers=layers,
        heads=heads,
        width=width,
        ffn_size=ffn,
        **others,
    )


class PartTracker(Tracker):
    """Knows of each storage which code has made it."""

    def __init__(self) -> None:
        super().__init__([])
        self.origins: dict[int, str] = {}
        self.parts: dict[int, str] = {}
        self.undo: list[Callable[[], None]] = []

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


def _origin() -> str:
    """The innermost frame of a strategy's library or of this project."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        known = any(name in file for name in OF_STRATEGIES)
        # DeepSpeed's linear layers stand in for torch's, and its backward calls torch's.
        if (
            file.endswith(("/zero/linear.py", "/utils/nvtx.py"))
            or frame.f_code.co_name == "backward"
        ):
            known = False
        if known or "/components/" in file or "/torch/optim" in file:
            return f"{file}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


@dataclass(frozen=True)
class Case:
    """A run: `rows` and `accumulation` are of a step on a rank, `sizes` go to `nano`."""

    word: str
    precision: Precision
    rows: int
    accumulation: int
    checkpointing: Any
    sizes: dict[str, Any]


def memory(ranks: Ranks, case: Case) -> dict[str, Any]:
    """The largest that each part becomes on this rank (`most`), and the largest sum (`peak`)."""
    word, precision, rows = case.word, case.precision, case.rows
    accumulation, checkpointing, sizes = case.accumulation, case.checkpointing, case.sizes
    torch.manual_seed(0)
    model = nano(**sizes)
    checkpoint_blocks(model, checkpointing)
    vocab, length = model.head.projection.out_features, model.seq_len
    tracker = PartTracker()
    resize = torch.UntypedStorage.resize_

    def noted_resize(storage: torch.UntypedStorage, size: int) -> Any:
        result = resize(storage, size)
        tracker.resized(storage)
        return result

    torch.UntypedStorage.resize_ = noted_resize  # type: ignore[method-assign]
    phases: list[tuple[int, str]] = []
    with tracker:
        for tensor in (*model.parameters(), *model.buffers()):
            tracker.note(tensor)
        del tensor
        make = partial(build_optimizer, ADAMW)
        strategy = prepared(STRATEGIES[word](), model, ranks, make, precision, 1.0)
        _watch_gradients(strategy, model, tracker, accumulation)
        del model
        for _ in range(STEPS):
            phases.append((len(tracker.events), "step"))
            batches = [_batch(rows, length, vocab) for _ in range(accumulation)]
            strategy.step(batches)
            del batches
        held = strategy.held()
        for part in ("params", "buffers", "master", "optimizer"):
            tracker.claim(part, getattr(held, part))
        del held
    torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]
    for undo in tracker.undo:
        undo()
    strategy.close()
    return _replayed(tracker, phases[-1][0])


def _batch(rows: int, length: int, vocab: int) -> Batch:
    return Batch(torch.randint(vocab, (rows, length)), torch.randint(vocab, (rows, length)), rows)


def _watch_gradients(
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


def _replayed(tracker: PartTracker, begin: int) -> dict[str, Any]:
    now = dict.fromkeys(PARTS, 0)
    most = dict.fromkeys(PARTS, 0)
    peak = 0
    for index, (kind, number, size) in enumerate(tracker.events):
        now[tracker.part(number)] += size if kind == "+" else -size
        if index >= begin:
            most = {name: max(most[name], now[name]) for name in PARTS}
            peak = max(peak, sum(now.values()))
    return {"most": most, "peak": peak}


def planned(case: Case, world_size: int) -> Holding:
    """What the plan says of the same."""
    with torch.device("meta"):
        model = nano(**case.sizes)
    checkpoint_blocks(model, case.checkpointing)
    ids = torch.empty(model.seq_len, dtype=torch.int64, device="meta")
    strategy = STRATEGIES[case.word]()
    kind = kind_of(strategy)
    way = kind.way(strategy, case.precision, gpu=False)
    events = trace(model, CrossEntropy(), Sample(ids, ids), case.rows, way)
    share = Share(
        facts_of(model),
        case.precision,
        world_size,
        cost_of(ADAMW),
        2 * ids.nbytes,
        case.rows,
        case.accumulation,
    )
    holding = kind.holding(strategy, share, model)
    holding.run(events)
    return holding


def compared(case: Case, world_size: int, real: dict[str, Any]) -> dict[str, float]:
    """The plan's relative error by part, and of the `total`; parts that are not there left out."""
    plan = planned(case, world_size)
    errors = {
        part: plan.most[part] / real["most"][part] - 1 if real["most"][part] else float("inf")
        for part in PARTS
        if plan.most[part] or real["most"][part]
    }
    return {**errors, "total": plan.peak.total / real["peak"] - 1}


def measured(case: Case, world_size: int) -> dict[str, Any]:
    """`memory` on `world_size` ranks: rank 0's."""
    if world_size == 1:
        return memory(alone(), case)
    return run(memory, world_size, case)[0]
