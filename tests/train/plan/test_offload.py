"""What is offloaded lies on no device; on a CPU it is the same memory."""

from __future__ import annotations

import pytest

from tests.train.plan.asked import planned

GPT = (
    "model=llama_7b",
    "model.layers=4",
    "precision=bf16",
    "micro_batch_size=1",
    "cluster.nproc_per_node=4",
)
ON_GPUS = (*GPT, "cluster.device=a100_80gb")


@pytest.mark.parametrize("stage", [2, 3])
def test_states_and_gradients_are_off_the_device(stage: int) -> None:
    plain = planned(*ON_GPUS, f"parallel=zero{stage}")
    off = planned(*ON_GPUS, f"parallel=zero{stage}", "parallel.offload_optimizer=cpu")
    for part in ("grads", "master", "optimizer"):
        assert off.per_rank[part] == off.at_peak[part] == 0
    assert off.per_rank["params"] == plain.per_rank["params"]
    # In bf16 a rank's part of N parameters: 4N of gradients, 4N of masters, 8N of Adam's moments.
    part = off.parameters / 4
    (note,) = set(off.notes) - set(plain.notes)
    assert note.startswith(f"{16 * part / 1e9:.3g} GB of a rank lie outside its device")
    # Stage 2 has a buffer of the largest weight on its way, in half precision.
    buffer = 2 * 32_000 * 4096 if stage == 2 else 0
    left = plain.per_rank["total_peak"] - off.per_rank["total_peak"]
    assert left == pytest.approx(16 * part - buffer, rel=1e-3)


def test_parameters_of_stage_3_too() -> None:
    words = (*ON_GPUS, "parallel=zero3", "parallel.offload_optimizer=cpu")
    states, all_of_it = planned(*words), planned(*words, "parallel.offload_params=cpu")
    own = 2 * states.parameters / 4
    moved = states.per_rank["params"] - all_of_it.per_rank["params"]
    assert moved == pytest.approx(own, rel=1e-3)
    assert all_of_it.per_rank["params"] > 0  # small ones stay


def test_on_a_cpu_it_is_the_same_memory() -> None:
    words = (*GPT, "cluster.device=cpu", "parallel=zero3")
    plain, off = planned(*words), planned(*words, "parallel.offload_optimizer=cpu")
    assert off.per_rank == plain.per_rank


def test_what_is_left_out_is_told() -> None:
    hook = "components.parallel.comm_hooks.bf16_compress"
    (note,) = planned(*ON_GPUS, "parallel=ddp", f"parallel.comm_hook={hook}").notes[-1:]
    assert note == f"parallel.comm_hook={hook}: planned without its copies, and as if it sent all"
    words = ("parallel=zero2", "+parallel.extra.zero_optimization.overlap_comm=false")
    (note,) = planned(*ON_GPUS, *words).notes[-1:]
    assert note == "parallel.extra (zero_optimization): planned by its sizes of buckets alone"
