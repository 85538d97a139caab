"""Replicas that are no longer equal: found by one bit, told by rank, name and distance."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.model.gpt import GPT
from components.model.mlp import MLP
from components.parallel.base import Parallel
from components.parallel.drift import Drifted, checksum, compare, constants, minority
from tests.gang import STRATEGIES, alone, prepared, run

REPLICATED = ("ddp", "hsdp", "zero1", "zero2")
"""Under these two ranks hold the same parameters, and under hsdp shards of them."""


def test_a_sum_of_bytes_by_hand() -> None:
    # 1 x 1 + 2 x 3 + 3 x 5
    assert int(checksum(torch.tensor([1, 2, 3], dtype=torch.int32))) == 22
    # The bits of 1.0 in float32 are 0x3f800000.
    assert int(checksum(torch.tensor([0.0, 1.0]))) == 3 * 0x3F800000


def test_one_bit_shows_wherever_it_is() -> None:
    values = torch.arange(1000, dtype=torch.float32)
    for place in (0, 1, 500, 999):
        other = values.clone()
        other.view(torch.int32)[place] ^= 1
        assert checksum(other) != checksum(values)


def test_elements_that_change_places_show() -> None:
    assert checksum(torch.tensor([1.0, 2.0])) != checksum(torch.tensor([2.0, 1.0]))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([True, False]),
        torch.tensor([1 + 2j, 0j]),
        torch.tensor([1.0], dtype=torch.bfloat16),
        torch.tensor([1.0], dtype=torch.float64),
        torch.tensor(3.0),
        torch.empty(0),
        torch.arange(6.0).view(2, 3).t(),
    ],
)
def test_any_tensor_has_a_sum(tensor: Tensor) -> None:
    assert checksum(tensor) == checksum(tensor.clone())


def test_all_parts_of_a_long_tensor_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.parallel.drift.CHUNK", 2)
    monkeypatch.setattr("components.parallel.drift.MIX", 100)
    # (1 x 1 + 2 x 3) x 100 + (3 x 1 + 4 x 3), then x 100 + 5 x 1
    assert int(checksum(torch.tensor([1, 2, 3, 4, 5], dtype=torch.int32))) == 71505


def test_the_odd_ones_are_those_beside_a_majority() -> None:
    assert minority({0: 5, 1: 5, 2: 7}) == [2]
    assert minority({4: 1, 5: 2, 6: 2, 7: 2}) == [4]
    assert minority({0: 5, 1: 7}) == []
    assert minority({0: 5, 1: 5, 2: 7, 3: 7}) == []


def test_running_statistics_are_each_ranks_own() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2))
    model.register_buffer("table", torch.ones(2), persistent=False)
    assert [*constants(model)] == ["table"]


def test_a_single_process_has_no_replicas() -> None:
    for word in ("single", "dp"):
        strategy = prepared(STRATEGIES[word](), _model(), alone())
        assert strategy.replicas() == []
        strategy.close()


def _model() -> MLP:
    return MLP(in_features=6, classes=3, width=8, layers=3)


def _said(strategy: Parallel, ranks: Ranks) -> tuple[str, int | None] | None:
    """What a comparison says; None when all is well."""
    try:
        compare(strategy.replicas(), ranks, step=4)
    except Drifted as drifted:
        return str(drifted), drifted.rank
    return None


def spoilt(ranks: Ranks, word: str, spoil: int) -> tuple[Any, Any, int]:
    """Before and after an element of the last weight is changed on one rank, after a step."""
    torch.manual_seed(0)
    strategy = prepared(STRATEGIES[word](), _model(), ranks)
    batch = Batch(torch.randn(4, 6), torch.tensor([0, 1, 2, 0]), 4)
    strategy.step([batch])
    before = _said(strategy, ranks)
    found = [replica for replica in strategy.replicas() if replica.name == "head.weight"]
    if ranks.rank == spoil:
        with torch.no_grad():
            found[0].tensor.view(-1)[2] += 0.5
    after = _said(strategy, ranks)
    number = len(strategy.replicas())
    strategy.close()
    return before, after, number


def all_spoilt(ranks: Ranks) -> dict[str, tuple[Any, Any, int]]:
    return {word: spoilt(ranks, word, 1) for word in REPLICATED}


def spoilt_ddp(ranks: Ranks) -> tuple[Any, Any, int]:
    return spoilt(ranks, "ddp", 2)


def tied(ranks: Ranks) -> tuple[Any, Any]:
    """A pipeline whose first and last stage share a weight."""
    torch.manual_seed(0)
    model = GPT(vocab_size=11, seq_len=4, layers=2, heads=1, width=4, tied_embeddings=True)
    strategy = prepared(STRATEGIES["pipeline"](), model, ranks)
    tokens = torch.arange(4).repeat(2, 1)
    strategy.step([Batch(tokens, tokens, 2)] * 2)
    before = _said(strategy, ranks)
    if ranks.main:
        with torch.no_grad():
            strategy.replicas()[0].tensor[0, 0] += 1.0
    after = _said(strategy, ranks)
    strategy.close()
    return before, after


def sharded(ranks: Ranks) -> list[int]:
    """How many replicas there are under strategies that hold everything once."""
    numbers = []
    for word in ("fsdp", "zero3", "pipeline"):
        strategy = prepared(STRATEGIES[word](), _model(), ranks)
        numbers.append(len(strategy.replicas()))
        strategy.close()
    return numbers


def test_a_changed_weight_is_named_with_its_distance() -> None:
    for told in run(all_spoilt, 2):
        for word, (before, after, number) in told.items():
            assert before is None, word
            assert number == 8, word  # stem, two blocks and head: weight and bias
            words, rank = after
            assert rank is None  # of two ranks neither is the odd one
            assert words.startswith("ranks 0 and 1 have drifted apart by step 4: head.weight")
            assert words.endswith("by up to 0.5, in 1 of 24 elements")


def test_of_three_ranks_the_odd_one_is_named() -> None:
    for before, after, _ in run(spoilt_ddp, 3):
        assert before is None
        words, rank = after
        assert rank == 2
        assert words.startswith("rank 2 has drifted from ranks 0, 1 by step 4: head.weight")


def test_a_weight_that_two_stages_share_is_compared() -> None:
    for before, after in run(tied, 2):
        assert before is None
        assert after[0].endswith("by up to 1, in 1 of 44 elements")


def test_what_is_held_once_is_not_compared() -> None:
    assert run(sharded, 2) == [[0, 0, 0]] * 2
