"""Plans held against runs: `python -m tests.benchmarks.plan [strategy ...]`.

For each strategy on two ranks (`single` on one), in fp32 and bf16: a GPT of 4,852,992 parameters
and one sample a micro-batch, and one of 394,080, eight samples and activation checkpointing. Prints
by how much the plan is off, by part and for the largest sum, against storages counted one by one on
rank 0. A minute or two for a strategy.
"""

from __future__ import annotations

import sys
from typing import Any

from components.cluster.ranks import Ranks
from components.precision import Precision
from tests.gang import BF16, FP32, ON_TWO, alone, run
from tests.measured_memory import Case, compared, memory

NANO: dict[str, Any] = {}
MEDIUM = {"layers": 6, "width": 256, "ffn": 1024, "heads": 4}
KINDS = ((MEDIUM, 1, "none"), (NANO, 8, "full"))


def cases(word: str, precision: Precision) -> list[Case]:
    accumulation = 4 if word == "pipeline" else 1
    return [Case(word, precision, rows, accumulation, mode, sizes) for sizes, rows, mode in KINDS]


def all_of(ranks: Ranks, some: list[Case]) -> list[dict[str, Any]]:
    return [memory(ranks, case) for case in some]


def measured(word: str, some: list[Case]) -> list[dict[str, Any]]:
    if word == "single":
        return all_of(alone(), some)
    if word.startswith("zero"):  # an engine leaves traces for the next one in a process
        return [run(all_of, 2, [case])[0][0] for case in some]
    return run(all_of, 2, some)[0]


def main() -> None:
    for word in sys.argv[1:] or ["single", *ON_TWO]:
        for precision in (FP32, BF16):
            some = cases(word, precision)
            for case, real in zip(some, measured(word, some), strict=True):
                print(line(case, compared(case, 1 if word == "single" else 2, real)), flush=True)


def line(case: Case, errors: dict[str, float]) -> str:
    model = "medium" if case.sizes else "nano"
    how = f"{case.word:9} {case.precision.name} {model:6} x{case.rows} {case.checkpointing:13}"
    return how + " ".join(f"{part} {error:+.1%}" for part, error in errors.items())


if __name__ == "__main__":
    main()
