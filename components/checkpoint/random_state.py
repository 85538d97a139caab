"""The state of every random generator that training draws from, on one rank."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def capture(device: torch.device) -> dict[str, Any]:
    """Python's, NumPy's and torch's state, and the device's: plain containers and tensors."""
    algorithm, keys, position, has_gauss, cached = np.random.get_state()
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": [
            str(algorithm),
            torch.from_numpy(np.array(keys, dtype=np.int64)),
            int(position),
            int(has_gauss),
            float(cached),
        ],
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore(state: dict[str, Any], device: torch.device) -> None:
    """Put every generator back. Call last: whatever draws in between would be drawn again."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    algorithm, keys, *rest = state["numpy"]
    np.random.set_state((algorithm, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
