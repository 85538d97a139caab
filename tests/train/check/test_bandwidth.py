from __future__ import annotations

import pytest

from train.check.bandwidth import algorithm_bandwidth, bus_bandwidth


def test_the_algorithm_bandwidth_is_the_message_over_its_time() -> None:
    assert algorithm_bandwidth(1000, 0.5) == 2000


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    # 1000 bytes in half a second on four ranks: 2000 bytes per second of the message.
    [
        ("all-reduce", 3000),  # each sends 2 x 3/4 of it
        ("all-gather", 1500),  # 3/4
        ("reduce-scatter", 1500),
        ("broadcast", 2000),
        ("ring", 2000),
    ],
)
def test_the_bus_bandwidth_is_what_a_link_must_carry(name: str, bandwidth: float) -> None:
    assert bus_bandwidth(name, 1000, 0.5, ranks=4) == bandwidth


def test_two_ranks_reduce_at_the_bandwidth_of_their_link() -> None:
    assert bus_bandwidth("all-reduce", 1000, 0.5, ranks=2) == 2000
