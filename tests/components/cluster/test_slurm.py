"""What Slurm's variables say of a process, and what of them cannot hold together."""

from __future__ import annotations

import pytest

from components.cluster import slurm
from components.cluster.joined import joined
from components.errors import ConfigError

STEP = {
    "SLURM_JOB_ID": "12345",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[03-04]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_NNODES": "2",
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_GPUS_ON_NODE": "8",
}
"""Of the second task of a step of one task a node."""

BATCH = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}


def test_a_step_says_which_node_of_how_many() -> None:
    said = {key: slurm.step_value(key, STEP) for key in slurm.SOURCES}
    assert said == {
        "nnodes": 2,
        "nproc_per_node": 8,
        "node_rank": 1,
        "rdzv_endpoint": "gpu03:22345",  # 20000 + 12345 modulo 10000
    }


def test_without_gpus_the_number_of_ranks_is_left_open() -> None:
    step = {name: value for name, value in STEP.items() if name != "SLURM_GPUS_ON_NODE"}
    assert slurm.step_value("nproc_per_node", step) == "auto"


def test_steps_of_a_job_do_not_meet_at_the_same_port() -> None:
    ports = {slurm.endpoint({**STEP, "SLURM_STEP_ID": str(step)})[1] for step in range(5)}
    next_job = slurm.endpoint({**STEP, "SLURM_JOB_ID": "12346"})[1]
    assert len(ports) == 5
    assert next_job not in ports


def test_a_job_of_several_nodes_has_steps_of_one() -> None:
    """The step's own numbers hold, whatever the job's are."""
    one = {**STEP, "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
    assert slurm.step_value("nnodes", one) == 1
    assert joined(one) is None
    slurm.refuse_unused(1, 8, one)


@pytest.mark.parametrize("key", ["nnodes", "rdzv_endpoint"])
def test_what_no_step_says_is_asked_for(key: str) -> None:
    with pytest.raises(ConfigError, match=r"SLURM_\w+ is missing .* srun --ntasks-per-node=1"):
        slurm.step_value(key, BATCH)


def test_a_task_a_rank_is_not_a_task_a_node() -> None:
    with pytest.raises(ConfigError) as refusal:
        slurm.check_one_task({**STEP, "SLURM_STEP_NUM_TASKS": "16"})
    told = str(refusal.value)
    assert "SLURM_STEP_NUM_TASKS=16" in told
    assert "SLURM_STEP_NUM_NODES=2" in told
    assert "--ntasks-per-node=1" in told


@pytest.mark.parametrize(
    ("environ", "both"),
    [
        (
            {**BATCH, "SLURM_NTASKS": "1", "SLURM_NTASKS_PER_NODE": "2"},
            ["SLURM_NTASKS=1", "SLURM_NTASKS_PER_NODE=2"],
        ),
        (
            {**STEP, "SLURM_STEP_NUM_TASKS": "4"},
            ["SLURM_STEP_NUM_TASKS=4", "SLURM_NTASKS_PER_NODE=1", "SLURM_STEP_NUM_NODES=2"],
        ),
        (
            {**BATCH, "SLURM_NTASKS": "2", "SLURM_PROCID": "2"},
            ["SLURM_PROCID=2", "SLURM_NTASKS=2"],
        ),
        (
            {**BATCH, "SLURM_NTASKS": "1", "SLURM_PROCID": "1"},
            ["SLURM_PROCID=1", "SLURM_NTASKS=1"],
        ),
        (
            {**STEP, "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS_PER_NODE": "0"},
            ["SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NUM_NODES=2"],
        ),
    ],
)
def test_variables_that_contradict_each_other(environ: dict[str, str], both: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        joined(environ)
    assert all(words in str(refusal.value) for words in both)


@pytest.mark.parametrize(
    ("environ", "nnodes", "ranks", "both"),
    [
        # A batch script over two nodes in which srun is forgotten.
        ({**BATCH, "SLURM_NNODES": "2"}, 1, 8, ["SLURM_NNODES=2", "cluster.nnodes=1"]),
        ({**BATCH, "SLURM_NNODES": "2"}, 4, 8, ["SLURM_NNODES=2", "cluster.nnodes=4"]),
        ({**BATCH, "SLURM_NTASKS": "4"}, 1, 8, ["SLURM_NTASKS=4", "8 ranks"]),
        # The shell of salloc: not even on the allocated node.
        ({"SLURM_JOB_ID": "77", "SLURM_NTASKS": "2"}, 1, 2, ["SLURM_NTASKS=2", "2 ranks"]),
        (
            {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": slurm.INTERACTIVE, "SLURM_NNODES": "2"},
            1,
            2,
            ["SLURM_NNODES=2", "cluster.nnodes=1"],
        ),
    ],
)
def test_srun_forgotten(environ: dict[str, str], nnodes: int, ranks: int, both: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        slurm.refuse_unused(nnodes, ranks, environ)
    told = str(refusal.value)
    assert all(words in told for words in both)
    assert "srun --ntasks-per-node=1 python -m train cluster=slurm" in told
    assert "#SBATCH" in told


@pytest.mark.parametrize(
    ("environ", "nnodes", "ranks"),
    [
        ({}, 1, 2),
        ({"SLURM_JOB_ID": "77"}, 1, 2),
        ({**BATCH, "SLURM_NNODES": "1", "SLURM_NTASKS": "1"}, 1, 8),
        ({**BATCH, "SLURM_NNODES": "1", "SLURM_NTASKS": "8"}, 1, 8),
        ({**BATCH, "SLURM_NNODES": "2", "SLURM_NTASKS": "2"}, 2, 1),
    ],
)
def test_a_command_that_does_what_was_asked_for(
    environ: dict[str, str], nnodes: int, ranks: int
) -> None:
    slurm.refuse_unused(nnodes, ranks, environ)


def test_a_right_set_is_taken_as_it_is() -> None:
    ranks = {
        **{k: v for k, v in STEP.items() if "STEP_NUM" not in k},
        "SLURM_NTASKS": "16",
        "SLURM_NTASKS_PER_NODE": "8",
        "SLURM_PROCID": "11",
        "SLURM_LOCALID": "3",
    }
    gang = joined(ranks)
    assert gang is not None
    assert (gang.rank, gang.world_size) == (11, 16)
    assert (gang.local_rank, gang.local_world_size, gang.nnodes) == (3, 8, 2)
