from __future__ import annotations

import pytest

from tests.train.check.cluster import link, rank
from train.check.report import make_report


def _found(number: int, node: int, seconds: list[float]) -> dict[str, object]:
    own = [{k: v for k, v in link(0, 1).items() if k != "across"}] if number == 0 else []
    timed = [
        {"name": "all-reduce", "bytes": 1000, "calls": 7, "seconds": seconds},
        {"name": "reduce-scatter", "not_offered": "no such thing"},
    ]
    return {**rank(number, node), "collectives": timed, "links": own}


def test_the_median_counts_of_what_the_slowest_rank_took() -> None:
    # The slowest took 1, 5 and 2 s: their median is 2. Each rank's own median would be 1.
    found = [_found(0, 0, [1.0, 1.0, 2.0]), _found(1, 0, [1.0, 5.0, 1.0])]
    report = make_report({"backend": "gloo"}, found)
    timed, lacking = report["collectives"]
    assert timed == {
        "name": "all-reduce",
        "bytes": 1000,
        "calls": 7,
        "repeats": 3,
        "seconds": 2.0,
        "algorithm_bytes_per_s": 500.0,
        "bus_bytes_per_s": pytest.approx(500.0),
    }
    assert lacking == {"name": "reduce-scatter", "not_offered": "no such thing"}
    assert report["ranks"] == [rank(0), rank(1)]
    assert report["odd"] == []


@pytest.mark.parametrize(("node", "across"), [(0, False), (1, True)])
def test_a_link_knows_whether_it_leads_to_another_node(node: int, across: bool) -> None:
    report = make_report({}, [_found(0, 0, [1.0]), _found(1, node, [1.0])])
    assert report["links"] == [link(0, 1, across=across)]
