"""Sweeps whose pages are looked at, with numbers that are easy to follow."""

from __future__ import annotations

import json
from pathlib import Path

from tests.train.compare.synthetic import curve, train_record, write_run
from train.compare.comparison import Comparison, compare
from train.compare.find import find_runs
from train.compare.results import Result, read_run

EVIL = "<script>document.body.innerHTML = 'taken over'</script>"
GB = 10**9


def compared(folder: Path, title: str = "a sweep") -> Comparison:
    """The comparison of all runs in a folder."""
    return compare([read_run(run) for run in find_runs([folder])], title=title)


def mixed(folder: Path) -> Path:
    """Four cells that completed, one that failed, one that was refused.

    | cell | train | val | samples/s | memory |
    | single fp32 | 4, 3, 2 | 2.5 | 100 | 8 GB |
    | ddp fp32 | 4, 3, 2 + 2e-6 | 2.5 | 900 | 9 GB |
    | fsdp bf16 | 4, 3.003, 2.2 | 2.75 | 1000 | 3 GB |
    | zero3 fp32 | 4, 3, 2 | 2.5 | 80 | 2 GB |
    """
    cells = (
        ("single", "fp32", [4.0, 3.0, 2.0], 2.5, 100.0, 8),
        ("ddp", "fp32", [4.0, 3.0, 2.000002], 2.5, 900.0, 9),
        ("fsdp", "bf16", [4.0, 3.003, 2.2], 2.75, 1000.0, 3),
        ("zero3", "fp32", [4.0, 3.0, 2.0], 2.5, 80.0, 2),
    )
    for number, (parallel, precision, losses, val, speed, memory) in enumerate(cells):
        write_run(
            folder / f"{number}_parallel-{parallel}_precision-{precision}",
            parallel=parallel,
            precision=precision,
            records=curve(losses, {3: val}),
            throughput={"step_time_s": 32 / speed, "samples_per_s": speed},
            peak_memory_bytes=[memory * GB, GB],
        )
    failed = write_run(
        folder / "4_parallel-hsdp",
        parallel="hsdp",
        precision="fp16",
        status="failed",
        attempts=2,
        records=[train_record(1, 4.0), train_record(2, None)],
        error={
            "kind": "diverged",
            "cause": f"train/loss is not finite.\n{EVIL}",
            "rank": 1,
            "step": 2,
            "traceback_file": "logs/rank-1.traceback.txt",
        },
    )
    (failed / "logs" / "rank-1.log").write_text("the end of the log\n")
    (failed / "logs" / "rank-1.traceback.txt").write_text("Traceback\n")
    write_run(
        folder / "5_parallel-pipeline #1",
        parallel="pipeline",
        status="refused",
        error={"cause": "parallel=pipeline: too few layers", "rank": None, "traceback_file": None},
    )
    return folder


def many(folder: Path, count: int, steps: int) -> Comparison:
    """So many completed cells that differ in precision, strategy and a number."""
    results = []
    for number in range(count):
        parallel = ("single", "ddp", "fsdp", "zero3", "pipeline")[number % 5]
        precision = ("fp32", "bf16")[number // 5 % 2]
        run = folder / f"{number}_run"
        run.mkdir(parents=True)
        lines = curve([4.0 - step / steps + number * 1e-3 for step in range(steps)], {steps: 3.0})
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        cell = {"parallel": parallel, "precision": precision, "world_size": 2}
        results.append(
            Result(
                folder=run,
                name=run.name,
                status="completed",
                started="2026-11-29T21:38:33.000+00:00",
                ended="2026-11-29T21:38:43.000+00:00",
                config={"seed": 0, "model": {"width": number}, "steps": steps},
                chosen={"seed": 0, "model": {"width": number}, "steps": steps},
                choices={"parallel": parallel, "precision": precision},
                cell=cell,
                summary={
                    "steps": steps,
                    "last": {"train/loss": 3.0, "val/loss": 3.0},
                    "throughput": {"step_time_s": 0.5, "samples_per_s": 64.0 + number},
                    "peak_memory_bytes": [GB + number],
                    "cell": cell,
                },
                steps=steps,
            )
        )
    return compare(results, title=f"{count} cells")
