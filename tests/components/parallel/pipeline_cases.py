"""Small stacks and data, and gangs of gloo processes to run them in."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn import functional as F

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.model.objective import IGNORE, CrossEntropy
from components.model.stack import Stack
from components.parallel.base import MakeOptimizer, Parallel
from components.precision import Precision

VOCAB, WIDTH, LENGTH = 11, 8, 5
CPU = torch.device("cpu")
FP32 = Precision(name="fp32", compute_dtype="float32")
BF16 = Precision(name="bf16", compute_dtype="bfloat16")
FP16 = Precision(name="fp16", compute_dtype="float16", enabled=True, init_scale=1024.0)


class Block(nn.Module):
    """A residual block; with running statistics each forward in training leaves its trace."""

    def __init__(self, statistics: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(LENGTH) if statistics else nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + F.gelu(self.mix(self.norm(hidden)))


class Tiny(Stack):
    """(rows, LENGTH) tokens to (rows, LENGTH, VOCAB) logits."""

    def __init__(self, blocks: int = 4, tied: bool = False, statistics: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Block(statistics) for _ in range(blocks))
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if tied:
            self.head.weight = self.stem.weight


def batches(step: int, count: int, rows: int = 2, ragged: bool = True) -> list[Batch]:
    """Micro-batches of one step: unequal numbers of masked targets, the last row a padding one."""
    generator = torch.Generator().manual_seed(step)
    out = []
    for index in range(count):
        inputs = torch.randint(VOCAB, (rows, LENGTH), generator=generator)
        targets = torch.randint(VOCAB, (rows, LENGTH), generator=generator)
        if ragged:
            targets[0, : (index + step) % LENGTH] = IGNORE
        out.append(Batch(inputs, targets, rows))
    if ragged:
        out[-1].valid = rows - 1
    return out


def sgd(named: list[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for _, p in named], lr=0.5)


def adamw(named: list[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for _, p in named], lr=1e-2, weight_decay=0.1)


def prepared(
    strategy: Parallel,
    model: nn.Module,
    ranks: Ranks,
    make_optimizer: MakeOptimizer = sgd,
    precision: Precision = FP32,
    clip_norm: float | None = 0.5,
) -> Any:
    """The strategy, ready to step."""
    strategy.prepare(model, CrossEntropy(), make_optimizer, precision, ranks, clip_norm)
    return strategy


def alone() -> Ranks:
    return Ranks(0, 1, 0, CPU)


def run(case: Callable[[Ranks], Any], world_size: int) -> list[Any]:
    """What `case` returns on each of `world_size` gloo processes, by rank.

    The processes are forked from a server that has the libraries imported and computes nothing.
    """
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch.distributed.pipelining", "torch._dynamo", "components.parallel.pipeline"]
    )
    with tempfile.TemporaryDirectory() as meeting_point:
        answers = context.SimpleQueue()
        gang = mp.start_processes(
            _rank,
            (world_size, f"{meeting_point}/store", case, answers),
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
                by_rank[rank] = answer
        while not gang.join():
            pass
    return [by_rank[rank] for rank in range(world_size)]


def _rank(
    rank: int, world_size: int, store: str, case: Callable[[Ranks], Any], answers: Any
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=world_size)
    answers.put((rank, case(Ranks(rank, world_size, rank, CPU))))
    dist.barrier()
    dist.destroy_process_group()
