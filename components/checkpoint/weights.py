"""The weights that a finished run leaves: one safetensors file keyed as the plain module."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from components.parallel.base import Parallel

FILE = "weights.safetensors"


def save_weights(folder: Path, weights: dict[str, Tensor], expected: dict[str, torch.Size]) -> Path:
    """Write `weights` whole or not at all, and check what the file then holds.

    Args:
        weights: fp32 masters on the CPU by plain name; tied ones under each of their names.
        expected: the plain module's names and shapes.

    Raises:
        RuntimeError: when the file lacks a weight or holds one of another shape.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    path = folder / FILE
    temporary = path.with_suffix(".partial")
    separate = {name: tensor.contiguous().clone() for name, tensor in weights.items()}
    save_file(separate, temporary, metadata={"format": "pt"})
    with safe_open(temporary, framework="pt") as written:
        names = written.keys()
        shapes = {name: torch.Size(written.get_slice(name).get_shape()) for name in names}
    if shapes != expected:
        wrong = sorted(set(shapes.items()) ^ set(expected.items()))
        raise RuntimeError(f"{temporary} differs from the model in {wrong[:6]}")
    os.replace(temporary, path)
    return path


class Checkpoint:
    """What a run keeps of its weights.

    Args:
        save_weights: leave `weights.safetensors` at the end.
    """

    def __init__(self, save_weights: bool = True) -> None:
        self.save_weights = save_weights

    def finish(self, folder: Path, parallel: Parallel, expected: dict[str, torch.Size]) -> None:
        """Save what a finished run leaves. Call on all ranks: sharded weights are gathered."""
        if not self.save_weights:
            return
        weights = parallel.full_weights()
        if weights:
            save_weights(folder, weights, expected)
