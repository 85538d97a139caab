"""What the process that decides has to import: as little as it needs, for it is waited for."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _imported(statement: str, names: set[str]) -> set[str]:
    """Which of the modules are there after a statement, in a process of its own."""
    code = f"import sys\n{statement}\nprint(*({names!r} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {*done.stdout.split()}


def test_a_mistake_is_told_before_torch_is_imported() -> None:
    heavy = {"torch", "wandb", "deepspeed", "plotly", "optuna", "rich", "numpy"}
    assert _imported("import train.command", heavy) == set()


@pytest.mark.parametrize("module", ["train.preflight", "train.launch", "train.follow"])
def test_what_only_ranks_need_is_left_to_them(module: str) -> None:
    ranks = {"torch.distributed.checkpoint", "torch.distributed.tensor", "train.train", "deepspeed"}
    assert _imported(f"import {module}", ranks) == set()
