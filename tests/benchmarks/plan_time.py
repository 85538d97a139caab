"""Planned times held against real ones: `python -m tests.benchmarks.plan_time [strategy ...]`.

Measures the machine (`python -m train.check`), plans each strategy in fp32 and bf16 by it on two
ranks of a CPU, trains it for some steps, and prints planned and real step time, their ratio, and
how many pairs of cells the plan puts in the right order. Let nothing else run meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path

STRATEGIES = ("ddp", "fsdp", "zero1", "zero2", "zero3", "pipeline")
SHORT = ("data.seq_len=128", "cluster.nproc_per_node=2")
MEDIUM = ("model.layers=6", "model.width=256", "model.heads=4", "global_batch_size=8")
MODELS = {"nano": (), "medium": MEDIUM}

ALIKE = 0.1
"""Cells whose real times differ by less than this share have no order to be right about."""

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    words = sys.argv[1:] or STRATEGIES
    with tempfile.TemporaryDirectory() as place:
        command(place, "train.check", "--json", "check.json", "cluster.nproc_per_node=2")
        for model, sizes in MODELS.items():
            times = []
            for parallel in words:
                for precision in ("fp32", "bf16"):
                    cell = (f"parallel={parallel}", f"precision={precision}", *SHORT, *sizes)
                    planned, real = plan(place, cell), measured(place, cell)
                    times.append((planned, real))
                    print(
                        f"{model:7} {parallel:9} {precision}  planned {planned * 1e3:7.1f} ms  "
                        f"real {real * 1e3:7.1f} ms  ratio {planned / real:.2f}",
                        flush=True,
                    )
            pairs = [
                (a, b)
                for a, b in combinations(times, 2)
                if abs(a[1] - b[1]) > ALIKE * max(a[1], b[1])
            ]
            right = sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs)
            print(f"{model:7} {right} of {len(pairs)} pairs in the right order")


def plan(place: str, cell: tuple[str, ...]) -> float:
    command(place, "train.plan", "cluster.device=check.json", "plan.json=plan.json", *cell)
    return float(json.loads(Path(place, "plan.json").read_text())["step_time_s"])


def measured(place: str, cell: tuple[str, ...]) -> float:
    folder = Path(place, "run", "_".join(cell).replace("=", "-"))
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
