"""The sizes of a step on each number of nodes: the same global batch, or a refusal that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.cluster.joined import Joined
from components.errors import ConfigError
from train.command_line import compose_jobs, parse
from train.preflight import preflight
from train.run_plan import Plan
from train.sweep.refusals import refuse_over_nodes

WORDS = (
    "cluster=multi_node",
    "cluster.node_rank=0",
    "cluster.rdzv_endpoint=node0:29500",
    "cluster.device=cpu",
    "cluster.nproc_per_node=2",
    "model=mlp",
    "data=digits",
    "logger=none",
)


def plan(folder: Path, *words: str) -> Plan:
    (job,) = compose_jobs(parse([*WORDS, *words]))
    return preflight(job.config, None, folder)


def refused(folder: Path, *words: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        plan(folder, *words)
    return str(refusal.value)


def by_count(found: Plan) -> dict[int, tuple[int, int]]:
    """(micro-batch, accumulation) by nodes."""
    return {n: (s.micro_batch_size, s.accumulation) for n, s in found.by_count.items()}


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        # 48 over 2, 4, 6, 8 ranks; on four nodes 6 a rank at once, never more on fewer nodes.
        ((), {1: (6, 4), 2: (6, 2), 3: (4, 2), 4: (6, 1)}),
        (("micro_batch_size=2",), {1: (2, 12), 2: (2, 6), 3: (2, 4), 4: (2, 3)}),
        (("accumulation=2",), {1: (12, 2), 2: (6, 2), 3: (4, 2), 4: (3, 2)}),
        # Two stages to eight: no slices, and 2 micro-batches a stage on the most nodes.
        (("parallel=pipeline", "model.layers=9"), dict.fromkeys((1, 2, 3, 4), (3, 16))),
    ],
)
def test_what_is_left_open_makes_up_for_the_ranks(
    tmp_path: Path, words: tuple[str, ...], sizes: dict[int, tuple[int, int]]
) -> None:
    found = plan(tmp_path, "cluster.nnodes=1:4", "global_batch_size=48", *words)
    assert by_count(found) == sizes
    assert {s.global_batch_size for s in found.by_count.values()} == {48}


def test_a_gang_of_some_nodes(tmp_path: Path) -> None:
    whole = plan(tmp_path, "cluster.nnodes=2:4", "global_batch_size=48")
    assert (whole.world_size, whole.config.cluster.nnodes) == (8, "2:4")
    formed = whole.formed(3)
    assert formed.world_size == 6
    assert formed.config.cluster.nnodes == 3
    sizes = (formed.config.micro_batch_size, formed.config.accumulation)
    assert sizes == (formed.sizes.micro_batch_size, formed.sizes.accumulation) == (4, 2)
    assert formed.cell["cluster"] == "3x2-cpu"
    assert [line for line in whole.lines() if line.startswith("nodes")] == [
        "nodes       2:4, as they come and go; on 2: micro-batch 6 x accumulation 2 x "
        "4 data-parallel"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("cluster.nnodes=1:4", "global_batch_size=32"),
            "cluster.nnodes=1:4: the global batch stays the same on any number of nodes, and "
            "global_batch_size=32 cannot be cut for 3 (a multiple of 6 is needed: 6 data-parallel "
            "ranks x 1). It can on 1 to 2, 4. Nearest: global_batch_size=24 or "
            "global_batch_size=48 or cluster.nnodes=1:2.",
        ),
        (
            ("cluster.nnodes=2:3", "global_batch_size=24", "micro_batch_size=4"),
            "cluster.nnodes=2:3: the global batch stays the same on any number of nodes, and "
            "global_batch_size=24 cannot be cut for 2 (a multiple of 16 is needed: 4 data-parallel "
            "ranks x 4). It can on 3. Nearest: global_batch_size=48 or cluster.nnodes=3.",
        ),
        (  # lcm(2, 4, ..., 64) is far away, so no batch is proposed
            ("cluster.nnodes=1:32", "global_batch_size=64"),
            "cluster.nnodes=1:32: the global batch stays the same on any number of nodes, and "
            "global_batch_size=64 cannot be cut for 3 (a multiple of 6 is needed: 6 data-parallel "
            "ranks x 1), 5 (a multiple of 10 is needed: 10 data-parallel ranks x 1), 6 (a multiple "
            "of 12 is needed: 12 data-parallel ranks x 1), 7 (a multiple of 14 is needed: 14 "
            "data-parallel ranks x 1) and 22 more. It can on 1 to 2, 4, 8, 16, 32. Nearest: "
            "cluster.nnodes=1:2.",
        ),
    ],
)
def test_a_batch_that_some_numbers_cannot_keep(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert refused(tmp_path, *words) == message


def test_a_launcher_of_ranks_fixes_the_nodes(tmp_path: Path) -> None:
    gang = Joined("torchrun", 0, 4, 0, 2, nnodes=2, host="node0", port=29500, hosted=True)
    (job,) = compose_jobs(parse([*WORDS, "cluster.nnodes=1:2"]))
    with pytest.raises(ConfigError, match=r"cluster\.nnodes=1:2 under torchrun, which fixes"):
        preflight(job.config, gang, tmp_path)


def test_a_sweep_is_run_from_one_machine(tmp_path: Path) -> None:
    jobs = compose_jobs(parse(["-m", *WORDS, "cluster.nnodes=1:2", "seed=0,1"]))
    with pytest.raises(ConfigError, match=r"-m with cluster\.nnodes=1:2: a sweep"):
        refuse_over_nodes(jobs)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("micro_batch_size=4", "accumulation=1"), "Set one of them to null."),
        (("global_batch_size=null",), "with global_batch_size=null"),
        (("checkpoint=weights",), "with checkpoint.keep_last=0"),
        (("parallel=single",), "cluster.nproc_per_node=2 and cluster.nnodes=1:4 ask for 8"),
        (("parallel=dp",), "cluster.nproc_per_node=2 and cluster.nnodes=1:4 ask for 8"),
        (("parallel=hsdp", "parallel.replicate=4"), "cluster.nnodes=1:4, on 1 node: parallel."),
        (
            ("parallel=pipeline", "model.layers=9", "accumulation=4"),
            "cluster.nnodes=1:4, on 3 nodes: accumulation=4",
        ),
    ],
)
def test_what_cannot_be_elastic(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    said = refused(tmp_path, "cluster.nnodes=1:4", "global_batch_size=48", *words)
    assert message in said
