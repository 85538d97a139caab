"""The derived DeepSpeed configuration, and what of it is refused before anything starts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from components.errors import ConfigError
from components.parallel.base import Cell
from components.parallel.zero import Zero
from components.parallel.zero_extra import quiet_import
from components.precision import Precision

FP32 = Precision(name="fp32", compute_dtype="float32")
BF16 = Precision(name="bf16", compute_dtype="bfloat16")
FP16 = Precision(name="fp16", compute_dtype="float16", enabled=True, init_scale=1024.0)


def model(elements: int) -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(elements, 1, bias=False)


def check(stage: int = 2, precision: Precision = BF16, **options: Any) -> None:
    zero = Zero(stage, **options)  # type: ignore[arg-type]
    zero.check(Cell(precision, "cpu", 2, 2, model(8)))


@pytest.mark.parametrize("precision", [FP32, BF16, FP16], ids=lambda p: p.name)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_config_is_plain_and_complete(stage: int, precision: Precision) -> None:
    config = Zero(stage).deepspeed_config(model(1000), precision, "cpu", 0.5)  # type: ignore[arg-type]
    assert json.loads(json.dumps(config)) == config
    assert config["zero_optimization"]["stage"] == stage
    assert config["gradient_clipping"] == 0.5
    assert config["communication_data_type"] == "fp32"
    assert config["data_types"] == {"grad_accum_dtype": "fp32"}
    enabled = {key for key in ("fp16", "bf16") if config.get(key, {}).get("enabled")}
    assert enabled == ({precision.name} if precision.mixed else set())


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_name_says_the_stage(stage: int) -> None:
    assert Zero(stage).name == f"zero{stage}"  # type: ignore[arg-type]


def test_no_clip_is_zero_in_deepspeed() -> None:
    assert Zero(1).deepspeed_config(model(8), FP32, "cpu", None)["gradient_clipping"] == 0.0


@pytest.mark.parametrize(
    ("elements", "bucket"),
    [(1000, 65_536), (8_000_000, 1_000_000), (40_000_000_000, 500_000_000)],
)
def test_buckets_are_sized_to_the_model(elements: int, bucket: int) -> None:
    zero = Zero(2).deepspeed_config(model(elements), FP32, "cpu", None)["zero_optimization"]
    assert zero["reduce_bucket_size"] == bucket
    assert zero["allgather_bucket_size"] == bucket


def test_own_bucket_sizes_and_raw_keys_are_laid_on_top() -> None:
    zero = Zero(
        3,
        offload_optimizer="cpu",
        reduce_bucket_size=77,
        extra={
            "steps_per_print": 10,
            "zero_optimization": {"overlap_comm": False, "offload_optimizer": {"ratio": 0.5}},
        },
    )
    config = zero.deepspeed_config(model(1000), FP32, "cuda", None)
    assert config["steps_per_print"] == 10
    assert config["zero_optimization"]["reduce_bucket_size"] == 77
    assert config["zero_optimization"]["overlap_comm"] is False
    assert config["zero_optimization"]["offload_optimizer"] == {
        "device": "cpu",
        "pin_memory": True,
        "ratio": 0.5,
    }


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"stage": 4}, ["parallel.stage=4", "zero3"]),
        (
            {"stage": 2, "offload_params": "cpu"},
            ["parallel.offload_params=cpu", "parallel.stage=2"],
        ),
        (
            {"stage": 1, "offload_optimizer": "nvme", "nvme_path": "/x"},
            ["parallel.offload_optimizer=nvme", "parallel.stage=1"],
        ),
        (
            {"stage": 3, "offload_params": "nvme"},
            ["parallel.offload_params=nvme", "parallel.nvme_path"],
        ),
        ({"stage": 1, "reduce_bucket_size": 0}, ["parallel.reduce_bucket_size=0"]),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        Zero(**options)
    assert all(name in str(refused.value) for name in named)


@pytest.mark.parametrize(
    ("extra", "wrong", "nearest"),
    [
        ({"gradient_cliping": 1.0}, "gradient_cliping", "gradient_clipping"),
        (
            {"zero_optimization": {"overlap_com": True}},
            "zero_optimization.overlap_com",
            "zero_optimization.overlap_comm",
        ),
        (
            {"zero_optimization": {"stage3_prefetch_bucketsize": 1}},
            "zero_optimization.stage3_prefetch_bucketsize",
            "zero_optimization.stage3_prefetch_bucket_size",
        ),
        (
            {"zero_optimization": {"offload_optimizer": {"pin_memry": True}}},
            "zero_optimization.offload_optimizer.pin_memry",
            "zero_optimization.offload_optimizer.pin_memory",
        ),
        ({"data_types": {"grad_acum_dtype": "fp32"}}, "grad_acum_dtype", "grad_accum_dtype"),
        ({"comms_logger": {"enable": True}}, "comms_logger.enable", "comms_logger.enabled"),
    ],
)
def test_misspelt_keys_are_refused_with_the_nearest(
    extra: dict[str, Any], wrong: str, nearest: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check(extra=extra)
    assert wrong in str(refused.value)
    assert str(refused.value).endswith(f"{nearest}.")


@pytest.mark.parametrize(
    ("extra", "key", "ours"),
    [
        ({"fp16": {"enabled": True}}, "parallel.extra.fp16.enabled=True", "precision=bf16"),
        ({"bf16": {"enabled": True}}, "parallel.extra.bf16.enabled", "precision=bf16"),
        ({"torch_autocast": {"enabled": True}}, "torch_autocast.enabled", "precision=bf16"),
        ({"train_batch_size": 8}, "train_batch_size=8", "global_batch_size"),
        ({"train_micro_batch_size_per_gpu": 8}, "per_gpu=8", "micro_batch_size"),
        ({"gradient_accumulation_steps": 2}, "accumulation_steps=2", "accumulation"),
        ({"gradient_clipping": 1.0}, "gradient_clipping=1.0", "clip_norm"),
        ({"zero_optimization": {"stage": 1}}, "zero_optimization.stage=1", "parallel"),
        ({"optimizer": {"type": "Adam"}}, "optimizer.type=Adam", "optimizer"),
        ({"scheduler": {"type": "WarmupLR"}}, "scheduler.type=WarmupLR", "scheduler"),
        (
            {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}},
            "zero_optimization.offload_optimizer.device=cpu",
            "parallel.offload_optimizer",
        ),
    ],
)
def test_what_the_run_says_itself_is_refused_naming_both(
    extra: dict[str, Any], key: str, ours: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check(extra=extra)
    assert key in str(refused.value)
    assert ours in str(refused.value)


def test_auto_and_wrong_values_are_refused() -> None:
    with pytest.raises(ConfigError, match='overlap_comm="auto"'):
        check(extra={"zero_optimization": {"overlap_comm": "auto"}})
    with pytest.raises(ConfigError, match="reduce_bucket_size"):
        check(extra={"zero_optimization": {"reduce_bucket_size": -1}})


def test_right_keys_pass() -> None:
    check(
        extra={
            "steps_per_print": 10,
            "wall_clock_breakdown": True,
            "zero_optimization": {"overlap_comm": False, "round_robin_gradients": True},
            "timers": {"throughput": {"enabled": False}},
        }
    )


@pytest.mark.parametrize("buildable", [True, False])
def test_nvme_is_refused_where_it_cannot_be_built(
    buildable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_import()
    from deepspeed.ops.op_builder import AsyncIOBuilder as builder

    monkeypatch.setattr(builder, "is_compatible", lambda self, verbose=False: buildable)
    options = {"stage": 3, "offload_optimizer": "nvme", "nvme_path": "/fast"}
    if buildable:
        check(**options)
        return
    with pytest.raises(ConfigError, match=r"parallel\.offload_optimizer=nvme.*libaio"):
        check(**options)


def test_importing_the_strategy_does_not_import_deepspeed() -> None:
    code = (
        "import sys, components.parallel.zero as z; z.Zero(3, extra={}); "
        "sys.exit('deepspeed' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
