"""Plans against the allocator of real GPUs: `python -m tests.benchmarks.plan_gpu [word ...]`.

GPT-2 of 124 million parameters, and of 1.5 billion with activation checkpointing, on as many GPUs
as there are (`single` on one), in bf16 and fp32: `torch.cuda.max_memory_allocated` over the steps
after the first ones, against the plan. Words choose strategies, precisions and models, as `fsdp
bf16 gpt2_124m`. Each run has processes of its own; one that fails, for want of memory for
instance, is told and the others go on.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from components.cluster.ranks import Ranks
from components.optimizer import build_optimizer
from components.parallel.activation_checkpointing import checkpoint_blocks
from tests.benchmarks.plan_cells import MODELS, PRECISIONS
from tests.gang import STRATEGIES, prepared
from tests.measured_memory import ADAMW, Case, batch_of, nano
from tests.planned_memory import planned

WARM_UP, COUNTED = 3, 2
"""Steps: libraries grow their buffers in the first ones."""

WORDS = ("single", "ddp", "fsdp", "zero1", "zero2", "zero3")
SMALL = Case("", PRECISIONS["fp32"], 4, 1, "none", MODELS["gpt2_124m"].sizes)
LARGE = replace(
    SMALL,
    rows=1,
    checkpointing="full",
    sizes={**SMALL.sizes, "layers": 48, "heads": 25, "width": 1600},
)
CASES = {"gpt2_124m": SMALL, "gpt2_1.5b": LARGE}


def chosen(words: list[str]) -> Iterator[tuple[str, Case]]:
    """Names of models and what is run, of those that all words allow.

    Raises:
        SystemExit: for a word that names nothing, with those that do.
    """
    axes = (WORDS, ("bf16", "fp32"), tuple(CASES))
    unknown = [word for word in words if not any(word in axis for axis in axes)]
    if unknown:
        known = "; ".join(" ".join(axis) for axis in axes)
        raise SystemExit(f"{unknown[0]}: no such word. There are {known}.")
    strategies, precisions, models = (
        [word for word in axis if word in words] or axis for axis in axes
    )
    for model in models:
        for strategy in strategies:
            for precision in precisions:
                yield model, replace(CASES[model], word=strategy, precision=PRECISIONS[precision])


def peak_on_gpu(case: Case, ranks: int) -> int:
    """Bytes that the allocator handed out at the most, on the rank where that is the most.

    Raises:
        Exception: what a rank has raised.
    """
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank, (ranks, case, folder), nprocs=ranks)
        return max(int((Path(folder) / str(rank)).read_text()) for rank in range(ranks))


def _rank(rank: int, ranks: int, case: Case, folder: str) -> None:
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = nano(**case.sizes)
    checkpoint_blocks(model, case.checkpointing)
    vocab, tokens = model.head.projection.out_features, case.tokens or model.seq_len
    own = Ranks(rank, ranks, rank, device)
    make = partial(build_optimizer, ADAMW)
    strategy = prepared(STRATEGIES[case.word](), model, own, make, case.precision, 1.0)
    del model
    for step in range(WARM_UP + COUNTED):
        if step == WARM_UP:
            torch.cuda.reset_peak_memory_stats(device)
        strategy.step([batch_of(case.rows, tokens, vocab) for _ in range(case.accumulation)])
    torch.cuda.synchronize(device)
    (Path(folder) / str(rank)).write_text(str(torch.cuda.max_memory_allocated(device)))
    strategy.close()
    dist.destroy_process_group()


def line(name: str, case: Case, ranks: int, bytes_: int) -> str:
    """Predicted, measured, by how much the plan is off."""
    plan = planned(case, ranks, gpu=True).peak.total
    return (
        f"{name:10} {case.word:7} {case.precision.name} on {ranks}: "
        f"predicted {plan / 2**30:.2f} GiB, "
        f"measured {bytes_ / 2**30:.2f} GiB, error {plan / bytes_ - 1:+.1%}"
    )


def main(words: list[str]) -> None:
    cases = list(chosen(words))
    count = torch.cuda.device_count()
    if count == 0:
        raise SystemExit("There is no GPU here.")
    for name, case in cases:
        ranks = 1 if case.word == "single" else count
        try:
            print(line(name, case, ranks, peak_on_gpu(case, ranks)), flush=True)
        except Exception as failure:
            print(f"{name} {case.word} {case.precision.name}: failed: {failure}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
