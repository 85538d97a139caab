from __future__ import annotations

import pytest
import torch

from components.model.attention import Attention, causal_attention


def by_formula(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    time, head_dim = query.shape[-2:]
    scores = query @ key.mT / head_dim**0.5
    later = torch.ones(time, time, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ value


def test_is_the_softmax_of_scaled_scores_up_to_the_position() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 6, 8).unbind()
    torch.testing.assert_close(
        causal_attention(query, key, value, 0.0), by_formula(query, key, value)
    )


def test_groups_of_query_heads_share_a_key_value_head() -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 4, 6, 8)
    key, value = torch.randn(2, 2, 2, 6, 8).unbind()
    repeated = [tensor[:, [0, 0, 1, 1]] for tensor in (key, value)]
    torch.testing.assert_close(
        causal_attention(query, key, value, 0.0), by_formula(query, *repeated)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_on_the_cpu_differ_by_rounding_the_result_only(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    halves = torch.randn(3, 2, 4, 6, 8).to(dtype).unbind()
    with torch.autocast("cpu", dtype=dtype):
        mixed = causal_attention(*halves, 0.0)
    assert mixed.dtype is dtype
    exact = by_formula(*(half.float() for half in halves))
    torch.testing.assert_close(mixed.float(), exact.to(dtype).float(), rtol=2**-7, atol=1e-6)


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    attention = Attention(width=8, heads=2, kv_heads=2, bias=False, dropout=0.5, rotary=None)
    hidden = torch.randn(1, 6, 8)
    assert not torch.equal(attention(hidden), attention(hidden))
    attention.eval()
    assert torch.equal(attention(hidden), attention(hidden))
