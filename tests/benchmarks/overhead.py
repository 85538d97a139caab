"""What the framework costs: our loop beside a bare hand-written one, same job, same process.

    python -m tests.benchmarks.overhead            # one process, fp32, one thread

Blocks of steps of either loop alternate, and each pair of neighbouring blocks gives a
ratio and a difference, so that whatever else the machine does falls on both. Printed are
their medians over all pairs, of CPU time. Both loops read the same samples in the same
order, clip, step the same fused optimizer and schedule, and keep their losses.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from torch import nn
from torch.nn import functional as F

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.data.loader import train_batches
from components.data.synthetic import Synthetic
from components.logger.base import Loggers, RunInfo
from components.logger.jsonl import JsonlLogger
from components.model.gpt import GPT
from components.model.mlp import MLP
from components.objective import CrossEntropy
from components.optimizer import build_optimizer, decay_groups
from components.parallel.single import Single
from components.precision import Precision
from components.scheduler import constant
from train.loop import Loop, Progress
from train.meter import Meter, Scale
from train.targets import build

LOG_EVERY = 10
FP32 = Precision(name="fp32", compute_dtype="float32")
ADAMW = partial(torch.optim.AdamW, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def gpt_nano() -> tuple[nn.Module, Synthetic, int]:
    """conf/model/gpt_nano.yaml on 16 sequences of 128 tokens."""
    node = OmegaConf.load(Path(__file__).parents[2] / "conf/model/gpt_nano.yaml")
    config = OmegaConf.create({"model": node, "data": {"vocab_size": 256, "seq_len": 128}})
    model = build(config.model, "model")
    assert isinstance(model, GPT)
    return model, Synthetic(seq_len=128, val_samples=0), 16


def tiny_mlp() -> tuple[nn.Module, Synthetic, int]:
    """Some 18 thousand parameters on 32 vectors of 64 features: next to no work a step."""
    model = MLP(in_features=64, classes=10, width=64, layers=3)
    return model, Synthetic(kind="features", val_samples=0), 32


def ours(model: nn.Module, data: Synthetic, batch: int, folder: Path) -> Callable[[int], None]:
    """The project's own loop, with metrics.jsonl written."""
    strategy = Single()
    ranks = Ranks(0, 1, 0, torch.device("cpu"))
    strategy.prepare(
        model, CrossEntropy(), partial(build_optimizer, ADAMW), FP32, ranks, clip_norm=1.0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(strategy.optimizer, constant(1_000_000))
    loggers = Loggers([JsonlLogger()])
    loggers.start(RunInfo(folder, "id", "name", {}, {}, None, 0))
    loop = Loop(
        parallel=strategy,
        scheduler=schedule,
        batches=batches(data, batch),
        validation=None,
        derive=lambda means: {},
        meter=Meter(Scale(), lambda samples: samples),
        report=loggers.log,
        steps=0,
        log_every=LOG_EVERY,
        eval_every=0,
        max_skips=None,
        patience=None,
        on_update=lambda: None,
        progress=Progress(),
    )

    def run(steps: int) -> None:
        loop.steps += steps
        loop.run()

    return run


def bare(model: nn.Module, data: Synthetic, batch: int) -> Callable[[int], None]:
    """The loop that one writes by hand."""
    optimizer = ADAMW(decay_groups(model.named_parameters(), 0.1))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, constant(1_000_000))
    order = torch.randperm(data.train_samples)
    samples = data.train_set()
    whole = data.train_samples // batch
    losses: list[float] = []
    position = 0

    def run(steps: int) -> None:
        nonlocal position
        model.train()
        total = torch.zeros(())
        for step in range(1, steps + 1):
            ids = order[position * batch : (position + 1) * batch]
            position = (position + 1) % whole
            inputs, targets = samples.inputs[ids], samples.targets[ids]
            outputs = model(inputs)
            loss = F.cross_entropy(outputs.view(-1, outputs.shape[-1]), targets.view(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            total += loss.detach()
            if step % LOG_EVERY == 0:
                losses.append(total.item() / LOG_EVERY)
                total = torch.zeros(())

    return run


def batches(data: Synthetic, batch: int) -> Iterator[list[Batch]]:
    return train_batches(
        data.train_set(),
        seed=0,
        shuffle=True,
        epoch_end="drop",
        micro_batch_size=batch,
        accumulation=1,
        dp_rank=0,
        dp_size=1,
    )


def compare(
    name: str, job: Callable[[], tuple[nn.Module, Synthetic, int]], steps: int, pairs: int
) -> None:
    """Print our loop's cost over the bare one for `job`."""
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        sides = {"ours": ours(*job(), Path(folder)), "bare": bare(*job())}
        times: dict[str, list[float]] = {"ours": [], "bare": []}
        for run in sides.values():
            run(steps)
        for pair in range(pairs):
            for side in ("ours", "bare") if pair % 2 else ("bare", "ours"):
                start = time.process_time()
                sides[side](steps)
                times[side].append((time.process_time() - start) / steps)
    ratios = [o / b for o, b in zip(times["ours"], times["bare"], strict=True)]
    extra = [(o - b) * 1e6 for o, b in zip(times["ours"], times["bare"], strict=True)]
    print(
        f"{name:10} bare {statistics.median(times['bare']) * 1e6:9.0f} us a step   "
        f"ratio {statistics.median(ratios):.4f} ({min(ratios):.3f} to {max(ratios):.3f})   "
        f"difference {statistics.median(extra):+.1f} us"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    compare("tiny_mlp", tiny_mlp, 500, arguments.pairs)
    compare("gpt_nano", gpt_nano, 10, arguments.pairs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
