"""Strategies on gangs of real gloo processes, without the command line."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from components.cluster.ranks import Ranks
from components.objective import objective_of
from components.parallel.base import MakeOptimizer, NamedParameters, Parallel
from components.parallel.ddp import DDP
from components.parallel.dp import DP
from components.parallel.fsdp import FSDP
from components.parallel.pipeline import Pipeline
from components.parallel.single import Single
from components.parallel.zero import Zero
from components.precision import Precision

CPU = torch.device("cpu")
FP32 = Precision(name="fp32", compute_dtype="float32")
BF16 = Precision(name="bf16", compute_dtype="bfloat16")
FP16 = Precision(name="fp16", compute_dtype="float16", enabled=True, init_scale=1024.0)

STRATEGIES: dict[str, Callable[[], Parallel]] = {
    "single": Single,
    "dp": DP,
    "ddp": DDP,
    "fsdp": FSDP,
    "hsdp": lambda: FSDP(replicate=2),
    "zero1": lambda: Zero(1),
    "zero2": lambda: Zero(2),
    "zero3": lambda: Zero(3),
    "pipeline": Pipeline,
}
"""By the word on the command line."""

ON_TWO = ("ddp", "fsdp", "zero1", "zero2", "zero3", "pipeline")
"""Those that two ranks show."""


PRELOADED = ["torch.distributed.pipelining", "torch._dynamo", __name__]
"""Modules that the server has imported from which processes are forked."""


def sgd(named: NamedParameters, lr: float = 0.5) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for _, p in named if p.requires_grad], lr=lr)


def adamw(named: NamedParameters) -> torch.optim.Optimizer:
    trainable = [p for _, p in named if p.requires_grad]
    return torch.optim.AdamW(trainable, lr=1e-2, weight_decay=0.1)


def prepared(
    strategy: Parallel,
    model: nn.Module,
    ranks: Ranks,
    make_optimizer: MakeOptimizer = sgd,
    precision: Precision = FP32,
    clip_norm: float | None = 0.5,
) -> Any:
    """The strategy, ready to step."""
    strategy.prepare(model, objective_of(model), make_optimizer, precision, ranks, clip_norm)
    return strategy


def alone() -> Ranks:
    return Ranks(0, 1, 0, CPU)


def run(case: Callable[..., Any], world_size: int, *args: Any) -> list[Any]:
    """What `case(ranks, *args)` returns on each of `world_size` gloo processes, by rank.

    The processes are forked from a server that has the libraries imported and computes nothing.
    """
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory() as meeting_point:
        answers = context.SimpleQueue()
        gang = mp.start_processes(
            _rank,
            (world_size, f"{meeting_point}/store", answers, case, args),
            nprocs=world_size,
            join=False,
            start_method="forkserver",
        )
        by_rank: dict[int, Any] = {}
        while len(by_rank) < world_size:
            if answers.empty():
                gang.join(timeout=0.05)  # raises what a rank raised
            else:
                rank, answer = answers.get()
                by_rank[rank] = pickle.loads(answer)
        while not gang.join():
            pass
    return [by_rank[rank] for rank in range(world_size)]


def _rank(
    rank: int, world_size: int, store: str, answers: Any, case: Callable[..., Any], args: Any
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=world_size)
    answer = case(Ranks(rank, world_size, rank, CPU), *args)
    # As bytes: tensors would be sent as handles to memory that dies with this process.
    answers.put((rank, pickle.dumps(answer)))
    dist.barrier()
    dist.destroy_process_group()
