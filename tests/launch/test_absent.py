"""A launcher says that there are two ranks, and starts one."""

from __future__ import annotations

from pathlib import Path

from tests.faults.words import SMALL
from tests.launch.test_one_folder import free_port
from tests.processes import family


def test_a_rank_that_never_comes(tmp_path: Path) -> None:
    port = free_port()
    env = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    words = (*SMALL, "cluster.start_timeout_s=3", "cluster.timeout_s=600")
    with family(tmp_path, *words, env=env) as command:
        outcome = command.outcome(90)
        command.gone_after(20)
    assert outcome.code == 1
    error = outcome.run.status["error"]
    assert error["kind"] == "absent"
    assert error["cause"] == (
        f"rank 1 did not come to 127.0.0.1:{port} within 3 s (cluster.start_timeout_s); rank 0 did"
    )
    assert "Traceback" not in outcome.stderr
