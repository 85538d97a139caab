"""What a rank's tensors really take while a strategy steps, by part, counted storage by storage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.model.gpt import GPT
from components.optimizer import build_optimizer
from components.parallel.activation_checkpointing import checkpoint_blocks
from components.precision import Precision
from tests.gang import STRATEGIES, alone, prepared, run
from tests.letting_go import letting_go
from tests.part_tracker import PartTracker, watch_gradients

STEPS = 3
"""The last one counts: libraries grow their buffers in the first, and fetch ahead in the second."""

ADAMW = partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1, fused=True)


def nano(
    layers: int = 4,
    width: int = 96,
    vocab: int = 256,
    time: int = 128,
    ffn: int | None = 256,
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


@dataclass(frozen=True)
class Case:
    """A run of a few steps.

    Attributes:
        rows, accumulation: of a step on a rank.
        sizes: of `nano`.
        tokens: of a sequence; None for as many as the model takes.
        products: whether products of matrices are computed; see `PartTracker`.
    """

    word: str
    precision: Precision
    rows: int
    accumulation: int
    checkpointing: Any
    sizes: dict[str, Any]
    tokens: int | None = None
    products: bool = True


def memory(ranks: Ranks, case: Case) -> dict[str, Any]:
    """The largest that each part becomes on this rank (`most`), and the largest sum (`peak`)."""
    torch.manual_seed(0)
    model = nano(**case.sizes)
    checkpoint_blocks(model, case.checkpointing)
    vocab, length = model.head.projection.out_features, case.tokens or model.seq_len
    tracker = PartTracker(case.products)
    begin = 0
    with tracker, tracker.noting_resizes(), letting_go():
        for tensor in (*model.parameters(), *model.buffers()):
            tracker.note(tensor)
        del tensor
        make = partial(build_optimizer, ADAMW)
        strategy = prepared(STRATEGIES[case.word](), model, ranks, make, case.precision, 1.0)
        watch_gradients(strategy, model, tracker, case.accumulation)
        del model
        for _ in range(STEPS):
            begin = len(tracker.events)
            batches = [batch_of(case.rows, length, vocab) for _ in range(case.accumulation)]
            strategy.step(batches)
            del batches
        held = strategy.held()
        for part in ("params", "buffers", "master", "optimizer"):
            tracker.claim(part, getattr(held, part))
        del held
    for undo in tracker.undo:
        undo()
    strategy.close()
    return tracker.replayed(begin)


def batch_of(rows: int, length: int, vocab: int) -> Batch:
    """Random ids."""
    return Batch(torch.randint(vocab, (rows, length)), torch.randint(vocab, (rows, length)), rows)


def measured(case: Case, world_size: int) -> dict[str, Any]:
    """`memory` on the rank of `world_size` that needs the most."""
    if world_size == 1:
        return memory(alone(), case)
    return largest(run(memory, world_size, case))


def largest(by_rank: list[dict[str, Any]]) -> dict[str, Any]:
    """Of what ranks held, that of the one with the largest sum; the first of equals."""
    return max(by_rank, key=lambda real: real["peak"])
