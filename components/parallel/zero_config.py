"""The DeepSpeed configuration of a ZeRO run, derived in full from the run's own settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from components.precision import Precision

Offload = Literal["none", "cpu", "nvme"]

LARGEST_BUCKET = 500_000_000
LARGEST_PREFETCH = 50_000_000
LARGEST_PERSISTENT = 100_000
LARGEST_LIVE = 1_000_000_000
"""DeepSpeed's own defaults, in elements: for models of many billions, and upper bounds here."""

SMALLEST_BUCKET = 2**16
"""Elements below which a collective costs more in latency than it saves in memory."""


@dataclass(frozen=True)
class ZeroOptions:
    """What the user chose of ZeRO; see `components.parallel.zero.Zero` for each."""

    stage: int
    offload_optimizer: Offload = "none"
    offload_params: Offload = "none"
    nvme_path: str | None = None
    reduce_bucket_size: int | None = None
    allgather_bucket_size: int | None = None
    prefetch_bucket_size: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def derive(
    options: ZeroOptions,
    model: nn.Module,
    precision: Precision,
    device: str,
    clip_norm: float | None,
) -> dict[str, Any]:
    """The complete configuration for `deepspeed.initialize`, as plain JSON-able data.

    Args:
        model: only the shapes of its parameters are read; it may be on the meta device.
        device: `cpu` or `cuda`.
        clip_norm: None leaves gradients unclipped; their norm is reported all the same.
    """
    config: dict[str, Any] = {
        # Counters only: the strategy weights the loss itself and says which backward is the last.
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": clip_norm or 0.0,
        "communication_data_type": "fp32",
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_allow_untested_optimizer": True,
        # With offload: keep the run's optimizer instead of compiling DeepSpeed's own.
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": _zero_section(options, model, device),
    }
    config.update(_precision_section(precision))
    return merged(config, options.extra)


def merged(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """`top` laid over `base`, section by section; neither is changed."""
    out = dict(base)
    for key, value in top.items():
        inner = out.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        out[key] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return out


def _precision_section(precision: Precision) -> dict[str, Any]:
    if precision.compute_dtype == "bfloat16":
        return {"bf16": {"enabled": True}}
    if precision.compute_dtype == "float16":
        # The nearest that DeepSpeed's scaler can say; `LossScale` takes its place.
        return {
            "fp16": {
                "enabled": True,
                "loss_scale": 0.0 if precision.scaled else 1.0,
                "initial_scale_power": round(math.log2(precision.init_scale)),
                "loss_scale_window": precision.growth_interval,
                "hysteresis": 1,
            }
        }
    return {}


def _zero_section(options: ZeroOptions, model: nn.Module, device: str) -> dict[str, Any]:
    total = sum(p.numel() for p in model.parameters())
    # DeepSpeed allocates its buckets in full: an eighth of the model overlaps well and stays small.
    bucket = _even(min(max(total // 8, SMALLEST_BUCKET), LARGEST_BUCKET))
    section: dict[str, Any] = {
        "stage": options.stage,
        "reduce_bucket_size": options.reduce_bucket_size or bucket,
    }
    if options.stage < 3:
        section["allgather_bucket_size"] = _even(options.allgather_bucket_size or bucket)
    else:
        # The defaults keep models below a billion parameters gathered from forward to backward,
        # and any parameter below 100,000 elements for ever: nothing small would be spread.
        live = min(max(total // 4, SMALLEST_BUCKET), LARGEST_LIVE)
        prefetch = options.prefetch_bucket_size or min(bucket, LARGEST_PREFETCH)
        section["stage3_prefetch_bucket_size"] = prefetch
        section["stage3_param_persistence_threshold"] = min(total // 100, LARGEST_PERSISTENT)
        section["stage3_max_live_parameters"] = live
        section["stage3_max_reuse_distance"] = live
    for key, where in (
        ("offload_optimizer", options.offload_optimizer),
        ("offload_param", options.offload_params),
    ):
        if where != "none":
            # Page-locked memory speeds up copies to a GPU and means nothing without one.
            section[key] = {"device": where, "pin_memory": device == "cuda"}
            if where == "nvme":
                section[key]["nvme_path"] = options.nvme_path
    return section


def _even(elements: int) -> int:
    """DeepSpeed aligns gathers to two elements."""
    return elements + elements % 2
