"""`deterministic=true`: what it sets in a rank, what then holds, and which operation refuses."""

from __future__ import annotations

import os
import re
from typing import Any

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
WORKSPACES = (":4096:8", ":16:8")
"""Values with which cuBLAS repeats itself, the faster one first; see
https://docs.nvidia.com/cuda/cublas/#results-reproducibility."""

REFUSAL = re.compile(r"(.+?) does not have a deterministic implementation")


def set_deterministic(deterministic: bool) -> None:
    """Deterministic kernels everywhere, and an error from an operation that has none.

    Call in each rank before CUDA starts: cuBLAS reads its workspace setting once
    (https://docs.pytorch.org/docs/stable/notes/randomness.html). Without it only the search for
    the fastest convolution is off, which may choose another one each time.
    """
    import torch

    if deterministic:
        if os.environ.get(WORKSPACE) not in WORKSPACES:
            os.environ[WORKSPACE] = WORKSPACES[0]
        torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = False


def in_force(device: str) -> dict[str, Any]:
    """What decides about the last bits of this rank's results, read off torch itself.

    Args:
        device: `cpu` or `cuda`.
    """
    import torch

    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    on_gpu = device == "cuda"
    return {
        "device": torch.cuda.get_device_name() if on_gpu else device,
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "fill_uninitialized_memory": filled,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cublas_workspace_config": os.environ.get(WORKSPACE),
    }


def refusing_operation(error: BaseException) -> str | None:
    """The operation that torch refused for want of a deterministic form; None for another error."""
    found = REFUSAL.match(str(error)) if isinstance(error, RuntimeError) else None
    return None if found is None else found[1]


def cure(operation: str) -> str:
    """What to tell of such an operation."""
    return (
        f"deterministic=true: {operation} has no deterministic form on this device. Take "
        "deterministic=false, or do without the operation; the traceback shows who calls it."
    )
