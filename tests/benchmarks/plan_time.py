"""Planned times held against real ones: `python -m tests.benchmarks.plan_time [strategy ...]`.

In each of some rounds the machine is measured (`python -m train.check`), each strategy in fp32 and
bf16 planned by that on two ranks of a CPU, and trained for some steps. Printed are the medians of
planned and of real step times, their ratio, and how many pairs of cells the plan puts in the right
order. Let nothing else run meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

STRATEGIES = ("ddp", "fsdp", "zero1", "zero2", "zero3", "pipeline")
SHORT = ("data.seq_len=128", "cluster.nproc_per_node=2")
MEDIUM = ("model.layers=6", "model.width=256", "model.heads=4", "global_batch_size=8")
PRECISIONS = ("fp32", "bf16")
MODELS = {"nano": (), "medium": MEDIUM}

ROUNDS = 3
"""A machine is not equally fast at all times."""

ALIKE = 0.1
"""Cells whose real times differ by less than this share have no order to be right about."""

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    words = sys.argv[1:] or STRATEGIES
    with tempfile.TemporaryDirectory() as place:
        for model, sizes in MODELS.items():
            cells = [
                (f"parallel={parallel}", f"precision={precision}")
                for parallel in words
                for precision in PRECISIONS
            ]
            plans: dict[tuple[str, ...], list[float]] = {cell: [] for cell in cells}
            runs: dict[tuple[str, ...], list[float]] = {cell: [] for cell in cells}
            for number in range(ROUNDS):
                command(place, "train.check", "--json", "check.json", "cluster.nproc_per_node=2")
                for cell, time in planned(place, words, sizes).items():
                    plans[cell].append(time)
                for cell in cells:
                    runs[cell].append(measured(place, (*cell, *SHORT, *sizes), number))
            told(model, plans, runs)


def told(
    model: str,
    plans: dict[tuple[str, ...], list[float]],
    runs: dict[tuple[str, ...], list[float]],
) -> None:
    """Print what came out for a model."""
    plan = {cell: median(times) for cell, times in plans.items()}
    real = {cell: median(times) for cell, times in runs.items()}
    for cell, times in runs.items():
        print(
            f"{model:7} {' '.join(cell):34} planned {plan[cell] * 1e3:7.1f} ms  "
            f"real {real[cell] * 1e3:7.1f} ms ({min(times) * 1e3:.1f} to {max(times) * 1e3:.1f})  "
            f"ratio {plan[cell] / real[cell]:.2f}"
        )
    pairs = [
        (a, b)
        for a, b in combinations(runs, 2)
        if abs(real[a] - real[b]) > ALIKE * max(real[a], real[b])
    ]
    right = sum((plan[a] < plan[b]) == (real[a] < real[b]) for a, b in pairs)
    print(f"{model:7} {right} of {len(pairs)} pairs in the right order", flush=True)


def planned(
    place: str, words: Sequence[str], sizes: tuple[str, ...]
) -> dict[tuple[str, ...], float]:
    """Seconds of a step by cell."""
    cells = (f"parallel={','.join(words)}", f"precision={','.join(PRECISIONS)}")
    asked = ("cluster.device=check.json", "plan.json=plan.json", *SHORT, *sizes)
    command(place, "train.plan", "-m", *cells, *asked)
    found = json.loads(Path(place, "plan.json").read_text())["cells"]
    return {_chosen(cell["overrides"]): float(cell["step_time_s"]) for cell in found}


def _chosen(overrides: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in overrides if word.startswith(("parallel=", "precision=")))


def measured(place: str, cell: tuple[str, ...], number: int) -> float:
    folder = Path(place, "run", "_".join(cell).replace("=", "-"), str(number))
    some = ("steps=30", "log_every=10", "eval_every=0", "logger=none", "checkpoint=weights")
    command(place, "train", *cell, *some, f"hydra.run.dir={folder}")
    summary = json.loads((folder / "summary.json").read_text())
    return float(summary["throughput"]["step_time_s"])


def command(place: str, module: str, *words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=place,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main()
