"""ZeRO on two real gloo ranks against one plain process."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

from tests.components.parallel import zero_cases

STAGES = (1, 2, 3)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """One launch measures everything: what costs is starting processes, not steps."""
    folder: Path = tmp_path_factory.mktemp("zero")
    mp.spawn(zero_cases.measure, (str(folder),), nprocs=zero_cases.WORLD)
    return torch.load(folder / "results.pt", weights_only=False)


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], atol: float) -> bool:
    return left.keys() == right.keys() and all(
        torch.allclose(left[k], right[k], rtol=0, atol=atol) for k in left
    )


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("optimizer", "accumulation"), [("sgd", 1), ("sgd", 2), ("adamw", 3)])
def test_curve_is_that_of_one_plain_process(
    results: dict[Any, Any], stage: int, optimizer: str, accumulation: int
) -> None:
    case = results["parity", stage, optimizer, accumulation]
    assert case["losses"] == pytest.approx(case["plain_losses"], rel=1e-5)
    assert case["norms"] == pytest.approx(case["plain_norms"], rel=1e-5)
    assert all(case["applied"])
    assert case["val_loss"] == pytest.approx(case["plain_val_loss"], rel=1e-5)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("accumulation", [1, 2])
def test_sgd_weights_are_those_of_one_plain_process(
    results: dict[Any, Any], stage: int, accumulation: int
) -> None:
    # AdamW would hide a wrong gradient scale; SGD shows it in the weights.
    case = results["parity", stage, "sgd", accumulation]
    assert close(case["weights"], case["plain_weights"], atol=1e-6)


@pytest.mark.parametrize("stage", STAGES)
def test_full_weights_hold_both_names_of_a_tied_weight(results: dict[Any, Any], stage: int) -> None:
    weights = results["parity", stage, "sgd", 2]["weights"]
    assert weights["head.weight"].shape == (11, 5)
    assert torch.equal(weights["head.weight"], weights["embed.weight"])


def test_stage_3_holds_half_of_the_parameters(results: dict[Any, Any]) -> None:
    # 212 fp32 elements; of the cut ones each rank holds ceil(n / 2): 55 -> 28, 15 -> 8, 5 -> 3,
    # 5 -> 3, 35 -> 18, 7 -> 4, 35 -> 18, 5 -> 3, 25 -> 13, 5 -> 3, 9 -> 5, 3 -> 2 = 108.
    assert results["parity", 3, "sgd", 2]["params_bytes"] == 108 * 4


@pytest.mark.parametrize("stage", STAGES)
def test_offloaded_optimizer_takes_the_same_steps(results: dict[Any, Any], stage: int) -> None:
    case = results["offload", stage]
    assert case["losses"] == pytest.approx(case["plain_losses"], rel=1e-5)
    assert case["norms"] == pytest.approx(case["plain_norms"], rel=1e-5)
    assert case["grads"] == "float32"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("precision", "half"), [("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16")]
)
def test_types_of_what_is_held(
    results: dict[Any, Any], stage: int, precision: str, half: str
) -> None:
    case = results["dtypes", stage, precision]
    held = dict(case["held"])
    # Stage 1 adds up bf16 gradients in a second, fp32 buffer, and keeps both.
    grads = "bfloat16,float32" if (stage, precision) == (1, "bf16") else "float32"
    assert held == {
        "params": half,
        "grads": grads,
        "master": "float32",
        "optimizer": "float32",
        "buffers": "float32",
    }
    assert case["reduce"] == "float32"
    # As under autocast: products in the half type, residual stream and norms in fp32.
    assert case["seen"] == {
        "residual": "float32",
        "norm": "float32",
        "product": half,
        "weight": half,
    }


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_masters_buffers_and_frozen_weights_are_not_rounded(
    results: dict[Any, Any], stage: int, precision: str
) -> None:
    case = results["dtypes", stage, precision]
    assert same(case["start"], case["plain_start"])
    for name in ("frozen.weight", "frozen.bias", "table"):
        assert torch.equal(case["weights"][name], case["plain_start"][name])


@pytest.mark.parametrize("stage", STAGES)
def test_running_statistics_stay_fp32_and_are_averaged(results: dict[Any, Any], stage: int) -> None:
    case = results["convnet", stage]
    assert case["losses"][-1] < case["losses"][0]
    assert case["weights"]["norm.running_mean"].dtype is torch.float32
    torch.testing.assert_close(case["weights"]["norm.running_mean"], case["mean"])


@pytest.mark.parametrize("stage", STAGES)
def test_inf_on_one_rank_skips_all_and_moves_the_scale_as_gradscaler(
    results: dict[Any, Any], stage: int
) -> None:
    case = results["inf", stage]
    # Two good steps double the scale; the fourth step halves it and starts the count again.
    assert case["scales"] == [1024, 2048, 2048, 1024, 1024, 2048, 2048, 4096]
    assert case["applied"] == [True] * 3 + [False] + [True] * 4
    assert not math.isfinite(case["norms"][3])
    assert same(case["weights"][2], case["weights"][3])
    assert not same(case["weights"][3], case["weights"][4])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", ["nan", "offload nan"])
def test_nan_without_a_scale_is_reported_and_changes_nothing(
    results: dict[Any, Any], stage: int, kind: str
) -> None:
    case = results[kind, stage]
    assert case["applied"] == [True] * 3 + [False] + [True] * 4
    assert not math.isfinite(case["norms"][3])
    assert same(case["weights"][2], case["weights"][3])
    assert not same(case["weights"][3], case["weights"][4])
    assert case["scales"] == [1.0] * 8


@pytest.mark.parametrize("stage", STAGES)
def test_growth_of_the_scale_does_not_shrink_the_step(results: dict[Any, Any], stage: int) -> None:
    case = results["growing", stage]
    assert case["norms"] == pytest.approx(case["plain_norms"], rel=5e-3)
    # A step taken with half of its gradient would be off by more than ten times this.
    assert close(case["weights"], case["plain_weights"], atol=1e-3)


@pytest.mark.parametrize("stage", STAGES)
def test_schedule_moves_the_learning_rate_of_the_update(
    results: dict[Any, Any], stage: int
) -> None:
    case = results["schedule", stage]
    assert same(case["before"], case["after"])
