"""Who a process is when torchrun or srun started it."""

from __future__ import annotations

import pytest

from components.cluster.joined import joined
from components.cluster.slurm import first_host
from components.errors import ConfigError


def test_nobody_started_it() -> None:
    assert joined({}) is None


def test_torchrun_s_variables() -> None:
    gang = joined(
        {
            "RANK": "3",
            "WORLD_SIZE": "4",
            "LOCAL_RANK": "1",
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_WORLD_SIZE": "2",
            "MASTER_ADDR": "node0",
            "MASTER_PORT": "29501",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
    )
    assert gang is not None
    assert (gang.launcher, gang.rank, gang.world_size) == ("torchrun", 3, 4)
    assert (gang.local_rank, gang.local_world_size, gang.nnodes) == (1, 2, 2)
    assert (gang.host, gang.port, gang.hosted) == ("node0", 29501, True)


SRUN = {
    "SLURM_JOB_ID": "12345",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[03-04]",
    "SLURM_NTASKS": "8",
    "SLURM_NNODES": "2",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}


def test_srun_s_variables_become_torchrun_s() -> None:
    gang = joined(SRUN)
    assert gang is not None
    assert (gang.launcher, gang.rank, gang.world_size, gang.hosted) == ("srun", 5, 8, False)
    assert gang.variables() == {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "gpu03",
        "MASTER_PORT": "22345",
    }


def test_every_task_of_a_job_finds_the_same_port_and_host() -> None:
    places = {(g.host, g.port) for r in range(8) if (g := joined({**SRUN, "SLURM_PROCID": str(r)}))}
    assert len(places) == 1


def test_a_batch_script_is_no_task() -> None:
    batch = {k: v for k, v in SRUN.items() if "STEP" not in k}
    assert joined(batch) is None


def test_a_single_task_is_no_gang() -> None:
    assert joined({**SRUN, "SLURM_NTASKS": "1", "SLURM_NNODES": "1", "SLURM_PROCID": "0"}) is None


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [
        ("localhost", "localhost"),
        ("gpu[03-05,9],login", "gpu03"),
        ("a1,a2", "a1"),
        ("n[7]", "n7"),
        ("rack-2-node[001-128]", "rack-2-node001"),
    ],
)
def test_first_host(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29501"}


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({**TORCHRUN, "WORLD_SIZE": "x"}, ["WORLD_SIZE=x"]),
        ({**TORCHRUN, "RANK": "2"}, ["RANK=2", "WORLD_SIZE=2"]),
        ({**TORCHRUN, "MASTER_PORT": "http"}, ["MASTER_PORT=http"]),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "0"}, ["LOCAL_WORLD_SIZE=0", "1 or more"]),
        ({k: v for k, v in TORCHRUN.items() if k != "MASTER_PORT"}, ["MASTER_PORT is missing"]),
        ({"WORLD_SIZE": "2", "RANK": "0"}, ["WORLD_SIZE=2", "MASTER_ADDR, MASTER_PORT"]),
        ({"WORLD_SIZE": "two"}, ["WORLD_SIZE=two"]),
        ({**SRUN, "SLURM_NTASKS": "x"}, ["SLURM_NTASKS=x"]),
        ({**SRUN, "SLURM_PROCID": "8"}, ["SLURM_PROCID=8", "SLURM_NTASKS=8"]),
    ],
)
def test_a_broken_environment_is_refused(environ: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        joined(environ)
    assert all(word in str(refusal.value) for word in words)


def test_a_gang_s_variables_that_a_job_script_exports_give_way_to_srun() -> None:
    gang = joined({**SRUN, "WORLD_SIZE": "8", "MASTER_ADDR": "gpu03", "MASTER_PORT": "29501"})
    assert gang is not None
    assert gang.launcher == "srun"


def test_one_process_by_itself_may_have_a_world_of_one() -> None:
    assert joined({"WORLD_SIZE": "1"}) is None
