from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from train.check.failed import CheckFailed, explained, in_words
from train.failure import Failure


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([3], "rank 3"), ([0, 1], "ranks 0-1"), ([0, 1, 2, 4, 6, 7], "ranks 0-2, 4, 6-7")],
)
def test_ranks_in_short(ranks: list[int], text: str) -> None:
    assert in_words(ranks) == text


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
