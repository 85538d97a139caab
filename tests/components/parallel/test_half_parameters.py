"""Half parameters under `compute_as_autocast` against fp32 ones under plain autocast."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from components.parallel.half_parameters import Autocast, compute_as_autocast


class Own(nn.Module):
    """A module with a parameter of its own, used in an elementwise product."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(6))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.gain


CASES = [
    (nn.Linear(6, 4), torch.rand(3, 6)),
    (nn.Conv2d(6, 4, 1), torch.rand(2, 6, 3, 3)),
    (nn.Embedding(9, 6), torch.tensor([[1, 2], [8, 1]])),
    (nn.LayerNorm(6), torch.rand(3, 6)),
    (nn.GroupNorm(2, 6), torch.rand(2, 6, 3)),
    (nn.BatchNorm2d(6), torch.rand(2, 6, 3, 3)),
    (nn.Sequential(nn.Conv2d(6, 6, 1), nn.BatchNorm2d(6)), torch.rand(2, 6, 3, 3)),
    (nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)), torch.rand(2, 6)),
    (Own(), torch.rand(3, 6)),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("module", "inputs"), CASES, ids=lambda case: type(case).__name__)
def test_outputs_have_type_and_value_of_autocast(
    module: nn.Module, inputs: Tensor, dtype: torch.dtype
) -> None:
    plain, half = copy.deepcopy(module), copy.deepcopy(module)
    for p in [*plain.parameters(), *half.parameters()]:
        p.data = p.data.to(dtype).float()  # values that both hold exactly
    for p in half.parameters():
        p.data = p.data.to(dtype)
    compute_as_autocast(half)
    with torch.autocast("cpu", dtype=dtype):
        want = plain(inputs)
    got = Autocast(half, "cpu", dtype)(inputs)
    assert got.dtype is want.dtype
    assert torch.equal(got, want)
    got.float().sum().backward()
    for name, p in half.named_parameters():
        assert p.grad is not None, name
        assert p.grad.dtype is dtype


def test_names_and_parameters_stay_as_they_are() -> None:
    module = nn.Sequential(nn.Embedding(9, 6), nn.LayerNorm(6))
    before = dict(module.named_parameters())
    compute_as_autocast(module.bfloat16())
    module(torch.tensor([1]))
    after = dict(module.named_parameters())
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)
    assert isinstance(module[1].weight, nn.Parameter)


def test_an_error_in_forward_leaves_the_parameters_visible() -> None:
    norm = nn.LayerNorm(6).bfloat16()
    compute_as_autocast(norm)
    with pytest.raises(RuntimeError):
        norm(torch.rand(3, 5))
    assert norm.weight.dtype is torch.bfloat16
