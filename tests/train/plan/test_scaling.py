"""From few ranks to thousands: what divides, what does not, and what is sent."""

from __future__ import annotations

import pytest

from tests.train.plan.asked import bare, cells, planned
from train.plan.plan import Plan
from train.plan.traffic import Message

N = 1024 * 8 * 100
"""Parameters that divide by all numbers of ranks here."""
NANO = ["cluster.device=a100_80gb", "cluster.nproc_per_node=2", "optimizer.fused=false"]


@pytest.mark.parametrize("ranks", [8, 1024, 8192])
def test_fsdp_divides_parameters_by_the_ranks_and_ddp_does_not(ranks: int) -> None:
    assert bare(str(N), "fsdp", "fp32", ranks).per_rank["params"] == 4 * N // ranks
    assert bare(str(N), "ddp", "fp32", ranks).per_rank["params"] == 4 * N


def test_hsdp_divides_by_its_shards() -> None:
    plan = bare(str(N), "hsdp", "fp32", 1024, "parallel.replicate=128")
    assert plan.per_rank["params"] == 4 * N // 8


@pytest.mark.parametrize(
    ("parallel", "divided"),
    [
        ("zero1", {"master", "optimizer"}),
        ("zero3", {"params", "grads", "master", "optimizer"}),
    ],
)
def test_zero_divides_what_its_stage_spreads(parallel: str, divided: set[str]) -> None:
    few, many = (bare("1e9", parallel, "bf16", ranks) for ranks in (8, 1024))
    for part in ("params", "grads", "master", "optimizer"):
        times = 128 if part in divided else 1
        assert many.per_rank[part] == pytest.approx(few.per_rank[part] / times, rel=1e-3)


def test_an_all_reduce_tends_to_twice_its_size_and_a_gather_to_once() -> None:
    assert Message("all-reduce", 1000, 2).sent == 1000
    assert Message("all-reduce", 1000, 1000).sent == 1998
    assert Message("all-gather", 1000, 1000).sent == 999
    assert Message("all-reduce", 1000, 100_000).sent == pytest.approx(2000, rel=2e-5)


def test_a_second_node_puts_the_network_in_the_way() -> None:
    # An A100: 300 GB/s to others on the node, 25 GB/s to those on other nodes, by two of them.
    # Stage 1 waits for both: gradients all-reduced, weights gathered, 1/2 and 3/4 of them twice
    # and once.
    one, two = (planned(*NANO, "parallel=zero1", f"cluster.nnodes={nodes}") for nodes in (1, 2))
    assert _part(one, "wait") == pytest.approx(1.5 * 4 * one.parameters / 300e9, rel=1e-6)
    assert _part(two, "wait") == pytest.approx(2.25 * 4 * two.parameters / 50e9, rel=1e-6)


def test_what_computing_hides_is_not_waited_for() -> None:
    hidden = planned(*NANO, "parallel=ddp")
    assert hidden.traffic[0]["sent_bytes"] / 300e9 < _part(hidden, "compute")
    assert _part(hidden, "wait") == 0


def test_the_parts_of_a_step_are_all_of_it() -> None:
    plan = planned(*NANO, "parallel=zero2")
    assert plan.step_parts_s is not None
    assert sum(plan.step_parts_s.values()) == plan.step_time_s
    assert min(plan.step_parts_s.values()) > 0


def test_the_slowest_stage_of_a_pipeline_sets_the_pace() -> None:
    # Two stages of 6 blocks with 7.1 million weights each; the last has 38.6 million more.
    words = ["model=gpt2_124m", *NANO, "parallel=pipeline", "micro_batch_size=8"]
    two, four = (planned(*words, f"global_batch_size={batch}") for batch in (16, 32))
    pace = (_part(four, "compute") - _part(two, "compute")) / 2
    all_stages = _part(two, "compute") - pace
    share = (6 * 7.1 + 38.6) / (12 * 7.1 + 38.6)
    assert pace / all_stages == pytest.approx(share, rel=0.05)


def test_given_a_micro_batch_the_global_batch_grows() -> None:
    found = cells("-m", *NANO, "parallel=fsdp", "cluster.nnodes=1,4,512", "micro_batch_size=3")
    assert [_sizes(cell.plan) for cell in found] == [(6, 3, 1), (24, 3, 1), (3072, 3, 1)]
    assert all("global_batch_size=null" in cell.overrides for cell in found)
    assert all("it grows" in cell.plan.notes[0] for cell in found if cell.plan)


def test_given_a_global_batch_the_micro_batch_shrinks() -> None:
    found = cells("-m", *NANO, "parallel=fsdp", "cluster.nnodes=1,4,16", "global_batch_size=16")
    assert [_sizes(cell.plan) for cell in found[:2]] == [(16, 8, 1), (16, 2, 1)]
    assert found[2].plan is None
    assert "global_batch_size=16 does not divide" in found[2].refused


def test_given_both_the_accumulation_makes_up_for_it() -> None:
    found = cells(
        *("-m", *NANO, "parallel=fsdp", "cluster.nnodes=1,4"),
        *("global_batch_size=16", "micro_batch_size=1"),
    )
    assert [_sizes(cell.plan) for cell in found] == [(16, 1, 8), (16, 1, 2)]


def test_one_number_of_ranks_is_planned_as_it_would_run() -> None:
    plan = planned(*NANO, "parallel=fsdp", "micro_batch_size=1")
    assert _sizes(plan) == (32, 1, 16)
    assert plan.notes == planned(*NANO, "parallel=fsdp").notes


def _sizes(plan: Plan | None) -> tuple[int, int, int]:
    assert plan is not None
    assert plan.sizes is not None
    sizes = plan.sizes
    return sizes["global_batch_size"], sizes["micro_batch_size"], sizes["accumulation"]


def _part(plan: Plan, part: str) -> float:
    assert plan.step_parts_s is not None
    return plan.step_parts_s[part]
