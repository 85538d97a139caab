"""What a job of a sweep costs beyond its training, beside a bare script that starts as many ranks.

    python -m tests.benchmarks.sweep               # 8 jobs of one step, ddp on two ranks
    python -m tests.benchmarks.sweep --parallel single zero3 --jobs 4

The bare script imports torch, starts its ranks, joins them over gloo, takes one optimizer step
of a tiny perceptron in each, and ends: a process for the command and one for each rank, as a
shell loop over a hand-written script would start them for each job. A sweep has all that and a
config, a folder with its records and a comparison at the end. Sweeps and scripts alternate;
printed are wall times per job and the median of the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.runs import run_started

JOB = (
    "data=synthetic",
    "data.kind=features",
    "data.val_samples=0",
    "model=mlp",
    "global_batch_size=8",
    "steps=1",
    "checkpoint.keep_last=0",
    "checkpoint.save_weights=false",
)

BARE = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, world, port):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, world, rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 64)), torch.zeros(4).long())
    loss.backward()
    optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    world, port = int(sys.argv[1]), int(sys.argv[2])
    mp.spawn(work, args=(world, port), nprocs=world)
"""


def bare(ranks: int, port: int) -> float:
    """Seconds of one bare script."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(BARE)
        script.flush()
        start = time.perf_counter()
        subprocess.run([sys.executable, script.name, str(ranks), str(port)], check=True)
        return time.perf_counter() - start


def sweep(parallel: str, jobs: int, words: Sequence[str]) -> float:
    """Seconds of one command with so many jobs."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        seeds = ",".join(map(str, range(jobs)))
        cells = (f"parallel={parallel}", f"seed={seeds}")
        run_started(Path(folder), "-m", *JOB, *cells, *words).completed()
        return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parallel", nargs="+", default=["ddp"])
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", nargs="*", default=[], help="as in logger=default")
    options = parser.parse_args()
    print(
        f"{'parallel':<10} {'bare s/job':>11} {'sweep s/job':>12} {'first job s':>12} {'ratio':>6}"
    )
    port = 29700
    for parallel in options.parallel:
        ranks = 1 if parallel == "single" else 2
        alone, whole, first = [], [], []
        for _ in range(options.rounds):
            port += 1
            alone.append(bare(ranks, port))
            first.append(sweep(parallel, 1, options.words))
            whole.append(sweep(parallel, options.jobs, options.words) / options.jobs)
        ratio = statistics.median(w / a for w, a in zip(whole, alone, strict=True))
        numbers = [statistics.median(values) for values in (alone, whole, first)]
        print("{:<10} {:>11.2f} {:>12.2f} {:>12.2f} {:>6.2f}".format(parallel, *numbers, ratio))


if __name__ == "__main__":
    main()
