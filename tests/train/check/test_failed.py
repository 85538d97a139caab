from __future__ import annotations

from pathlib import Path

from components.errors import ConfigError
from train.check.failed import CheckFailed, explained
from train.failure import Failure


def test_a_failure_tells_who_failed_and_where_all_were() -> None:
    first = Failure(1, "killed", "killed by SIGKILL", 0.0)
    told = explained(first, {0: "clocks", 1: "clocks", 2: "joining the others"}, Path("/tmp/x"))
    assert isinstance(told, CheckFailed)
    assert str(told) == (
        "rank 1: killed by SIGKILL\nat clocks: ranks 0-1\nat joining the others: rank 2\n"
        "logs of this node's ranks: /tmp/x/logs"
    )


def test_a_failure_of_no_rank_names_none() -> None:
    assert str(explained(Failure(None, "killed", "node 1 ended", 0.0), {})) == "node 1 ended"


def test_a_configuration_that_a_rank_refuses_is_refused() -> None:
    assert isinstance(explained(Failure(1, "refused", "no GPU", 0.0), {}), ConfigError)
