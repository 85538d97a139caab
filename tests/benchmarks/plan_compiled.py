"""Memory of compiled blocks: `python -m tests.benchmarks.plan_compiled [strategy ...]`.

Compiled code makes its tensors where no operation is seen that could be counted, so here every
allocation of a rank is followed, as torch's profiler hears of it, of plain blocks and of compiled
ones, on two gloo ranks. Prints for each cell the peak of the third step with both, their ratio, and
the plan over what compiled blocks took. Compiling takes a minute a cell; needs a C++ compiler.
"""

from __future__ import annotations

import os
import sys
from functools import partial

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from components.cluster.ranks import Ranks
from components.model.compiled import compile_blocks
from components.optimizer import build_optimizer
from components.parallel.activation_checkpointing import checkpoint_blocks
from tests import gang
from tests.benchmarks.plan_cells import MODELS, PRECISIONS
from tests.measured_memory import ADAMW, STEPS, Case, batch_of, nano
from tests.planned_memory import planned

STRATEGIES = ("ddp", "fsdp", "zero1", "zero2", "pipeline")
RANKS = 2
ROWS = 8
MODEL = MODELS["gpt_nano"]


def main(words: list[str]) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    gang.PRELOADED.append("deepspeed")
    for word in words or STRATEGIES:
        for name in ("fp32", "bf16"):
            for form in ("none", "full"):
                accumulation = 4 if word == "pipeline" else 1
                case = Case(
                    word, PRECISIONS[name], ROWS, accumulation, form, MODEL.sizes, MODEL.tokens
                )
                plain, compiled = (max(gang.run(peak, RANKS, case, on)) for on in (False, True))
                plan = planned(case, RANKS).peak.total
                print(
                    f"{word:9} {name} {form:4}  plain {plain / 1e6:7.1f} MB  compiled "
                    f"{compiled / 1e6:7.1f} MB: {compiled / plain:.3f}  plan over compiled "
                    f"{plan / compiled:.3f}",
                    flush=True,
                )


def peak(ranks: Ranks, case: Case, compiled: bool) -> int:
    """Bytes that this rank has allocated at the most during the last step."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as heard:
        torch.manual_seed(0)
        model = nano(**case.sizes)
        vocab, length = model.head.projection.out_features, case.tokens or model.seq_len
        if compiled:
            compile_blocks(model)
        checkpoint_blocks(model, case.checkpointing)
        make = partial(build_optimizer, ADAMW)
        strategy = gang.prepared(
            gang.STRATEGIES[case.word](), model, ranks, make, case.precision, 1.0
        )
        del model
        for step in range(STEPS):
            if step == STEPS - 1:
                dist.barrier()
                with torch.profiler.record_function("last step"):
                    pass
            batches = [batch_of(case.rows, length, vocab) for _ in range(case.accumulation)]
            strategy.step(batches)
            del batches
    strategy.close()
    events = sorted(heard.profiler.kineto_results.events(), key=lambda e: e.start_ns())
    begin = next(e.start_ns() for e in events if e.name() == "last step")
    now = most = 0
    for event in events:
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now) if event.start_ns() >= begin else most
    return most


if __name__ == "__main__":
    main(sys.argv[1:])
