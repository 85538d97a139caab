from __future__ import annotations

from tests.train.check.cluster import flops, link, rank
from train.check.verdict import odd


def test_ranks_and_links_that_are_alike_are_not_odd() -> None:
    ranks = [rank(number, flops=flops(100 + number)) for number in range(4)]
    assert odd(ranks, [link(0, 1), link(1, 2), link(2, 3), link(3, 0)]) == []


def test_one_rank_has_none_to_differ_from() -> None:
    assert odd([rank(0)], []) == []


def test_a_slow_rank_is_named_with_its_share_of_the_median() -> None:
    # The median of 100, 100, 40 and 100 is 100.
    ranks = [rank(n, flops=flops(40 if n == 2 else 100)) for n in range(4)]
    assert odd(ranks, []) == ["rank 2: fp32 products at 0.40 of the median rate"]


def test_all_that_is_odd_about_a_rank_stands_in_one_sentence() -> None:
    ranks = [rank(0), rank(1, flops=flops(200), copy_bytes_per_s=2e9), rank(2)]
    assert odd(ranks, []) == [
        "rank 1: fp32 products at 2.00 of the median rate, copies of memory at 0.20 of the "
        "median rate"
    ]


def test_a_rate_within_a_quarter_of_the_median_is_not_odd() -> None:
    assert odd([rank(0), rank(1), rank(2, flops=flops(75))], []) == []
    assert odd([rank(0), rank(1), rank(2, flops=flops(74))], []) != []


def test_of_two_ranks_that_differ_the_pair_is_named() -> None:
    # Their median, 70, is as far from the one as from the other.
    assert odd([rank(0), rank(1, flops=flops(40))], []) == [
        "ranks 0 and 1: fp32 products on rank 1 at 0.40 of rank 0's rate; of two, neither can be "
        "called the odd one"
    ]


def test_halves_that_differ_have_no_majority() -> None:
    ranks = [rank(n, flops=flops(100 if n < 2 else 40)) for n in range(4)]
    assert odd(ranks, []) == [
        "ranks differ in fp32 products without a majority: rank 2 has 0.40 of rank 0's rate"
    ]


def test_a_slow_link_is_named() -> None:
    links = [link(0, 1), link(1, 2, bytes_per_s=0.3e9), link(2, 3), link(3, 0)]
    assert odd([rank(n) for n in range(4)], links) == [
        "link 1-2 0.30 of the median bandwidth within a node"
    ]


def test_a_rank_whose_links_are_all_slow_is_named_in_their_place() -> None:
    # Rank 2 has the links 1-2 and 2-3; of five links the median is 1e9.
    rates = {(0, 1): 1.0, (1, 2): 0.2, (2, 3): 0.4, (3, 4): 1.0, (4, 0): 1.0}
    links = [link(*pair, bytes_per_s=rate * 1e9) for pair, rate in rates.items()]
    assert odd([rank(n) for n in range(5)], links) == [
        "rank 2: all its links are slow: 1-2 0.20, 2-3 0.40 of the median bandwidth within a node"
    ]


def test_links_between_nodes_are_not_held_against_those_within() -> None:
    ranks = [rank(n, node=n // 2) for n in range(4)]
    slow = {"bytes_per_s": 0.1e9, "latency_s": 1e-3, "across": True}
    links = [link(0, 1), link(1, 2, **slow), link(2, 3), link(3, 0, **slow)]
    assert odd(ranks, links) == []


def test_of_two_links_that_differ_neither_is_called_slow() -> None:
    # The median of 1 and 0.2 is 0.6: the shares are 1.67 and 0.33.
    links = [link(1, 2, across=True), link(3, 0, across=True, bytes_per_s=0.2e9)]
    assert odd([rank(n, node=n // 2) for n in range(4)], links) == [
        "links differ without a majority: 1-2 1.67, 3-0 0.33 of the median bandwidth between nodes"
    ]


def test_a_latency_counts_only_where_it_is_long_by_itself_too() -> None:
    def told(latencies: list[float]) -> list[str]:
        links = [link(n, (n + 1) % 4, latency_s=s) for n, s in enumerate(latencies)]
        return odd([rank(n) for n in range(4)], links)

    assert told([2e-6, 2e-6, 2e-6, 20e-6]) == []  # ten times as long, and nothing
    assert told([100e-6, 100e-6, 100e-6, 400e-6]) == [
        "link 3-0 4.00 times the median latency within a node"
    ]


def test_a_clock_that_is_off_is_named_with_its_node() -> None:
    # Offsets are against rank 0's clock, so it is node 0 that is off by -2 s.
    ranks = [rank(0), *(rank(n, node=n, clock_offset_s=2.0) for n in (1, 2))]
    assert odd(ranks, []) == ["node 0 (host0): its clock is -2.000 s off the median (± 0.000100)"]


def test_of_two_clocks_their_distance_is_told() -> None:
    ranks = [rank(0, clock_uncertainty_s=0.0), rank(1, node=1, clock_offset_s=-0.5)]
    assert odd(ranks, []) == ["clocks of nodes 1 and 0 are 0.500 s apart (± 0.000100)"]


def test_versions_and_hardware_that_differ_are_named_with_their_ranks() -> None:
    other = {"python": "3.11.7", "torch": "2.12.1"}
    ranks = [rank(0), rank(1), rank(2), rank(3, versions=other, cores=2)]
    assert odd(ranks, []) == [
        "torch differs: 2.13.0 on ranks 0-2; 2.12.1 on rank 3",
        "cores differs: 4 on ranks 0-2; 2 on rank 3",
    ]


def test_a_package_that_one_rank_lacks_is_missing_there() -> None:
    ranks = [rank(0), rank(1, versions={"python": "3.11.7"})]
    assert odd(ranks, []) == ["torch differs: 2.13.0 on rank 0; missing on rank 1"]


def test_a_gpu_that_somebody_else_uses_is_named() -> None:
    rates = {"fp32": 1e12, "bf16": 9e12, "fp16": 9e12}
    ranks = [rank(0, flops=rates, memory_free_bytes=8e9), rank(1, flops=rates)]
    assert odd(ranks, []) == ["rank 1: only 75% of its GPU's memory is free: somebody else uses it"]
