from __future__ import annotations

import pytest

from components.cluster.control import Control
from components.cluster.ranks import Ranks
from tests.gang import run
from train.check.collectives import COLLECTIVES, expected_s, not_offered, time_collectives
from train.check.limits import Limits
from train.check.links import neighbours, time_links

TINY = Limits(
    sizes=(1024, 4096),
    repeats=3,
    repeat_s=0.0,
    size_s=60.0,
    link_bytes=1024,
    matrix=128,
    product_s=0.0,
    copy_bytes=1024,
)


def test_a_call_is_expected_to_take_a_latency_and_a_time_for_each_byte() -> None:
    # 1 s and 3 s at 100 and 200 bytes: 20 ms a byte.
    assert expected_s([(100, 1.0), (200, 3.0)], 400) == pytest.approx(7.0)
    assert expected_s([(10, 9.0), (100, 1.0), (200, 3.0)], 400) == pytest.approx(7.0)


def test_a_larger_message_that_was_faster_promises_no_more() -> None:
    assert expected_s([(100, 3.0), (200, 1.0)], 400) == pytest.approx(1.0)


def test_one_size_alone_says_nothing() -> None:
    assert expected_s([], 100) == 0
    assert expected_s([(100, 3.0)], 400) == 0


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("ProcessGroupGloo does not support reduce_scatter", True),
        ("Backend gloo does not implement _reduce_scatter_base", True),
        ("Connection closed by peer [127.0.0.1]:1234", False),
    ],
)
def test_what_a_backend_lacks_is_told_from_what_failed(text: str, lacking: bool) -> None:
    assert not_offered(RuntimeError(text)) is lacking


@pytest.mark.parametrize(
    ("world_size", "pairs"),
    [(1, []), (2, [(0, 1)]), (3, [(0, 1), (1, 2), (2, 0)])],
)
def test_the_links_of_a_ring(world_size: int, pairs: list[tuple[int, int]]) -> None:
    assert list(neighbours(world_size)) == pairs


def _time(ranks: Ranks) -> tuple[list, list, list]:  # type: ignore[type-arg]
    said: list[str] = []
    control = Control(ranks, timeout_s=60.0)
    timed = time_collectives(control, TINY, said.append)
    return timed, time_links(control, TINY, said.append), said


def test_three_ranks_time_every_collective_at_every_size() -> None:
    by_rank = run(_time, 3)
    for timed, _, said in by_rank:
        # 1024 bytes are 256 numbers: 85 whole ones for each of three ranks, 1020 bytes.
        sizes = [(entry["name"], entry["bytes"]) for entry in timed]
        assert sizes == [(name, size) for name in COLLECTIVES for size in (1020, 4092)]
        assert all(len(entry["seconds"]) == 3 for entry in timed)
        assert all(second > 0 for entry in timed for second in entry["seconds"])
        assert said[0] == "all-reduce of 1020 bytes"
        assert said[-1] == "link 2-0"
    assert [[link["ranks"] for link in links] for _, links, _ in by_rank] == [
        [[0, 1]],
        [[1, 2]],
        [[2, 0]],
    ]
