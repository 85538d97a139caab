from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from components.errors import ConfigError
from components.model import compiled
from components.model.compiled import compile_blocks, refuse_without_compiler
from components.model.gpt import GPT
from components.parallel.activation_checkpointing import checkpoint_blocks
from components.parallel.half_parameters import compute_as_autocast

TOKENS = torch.arange(16).view(2, 8)


@pytest.fixture(autouse=True)
def _traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs are traced and differentiated as ever, and run without being compiled to C++."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    compiled._forwards.clear()
    torch._dynamo.reset()
    counters.clear()
    yield
    compiled._forwards.clear()
    torch._dynamo.reset()


def gpt(**options: Any) -> GPT:
    torch.manual_seed(0)
    return GPT(vocab_size=16, seq_len=8, layers=3, heads=2, width=16, **options)


def gradients(model: nn.Module, half: bool = False) -> dict[str, torch.Tensor]:
    """Loss and gradients of one forward and backward."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        loss = model(TOKENS).float().square().mean()
    loss.backward()
    return {"loss": loss} | {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("mode", ["none", "full", "reentrant"])
@pytest.mark.parametrize("half", [False, True])
def test_the_same_numbers_by_one_graph_for_all_blocks(mode: Any, half: bool) -> None:
    """Half parameters are what fsdp and ZeRO compute with under bf16 and fp16."""
    plain, other = gpt(), gpt()
    compile_blocks(other)
    checkpoint_blocks(other, mode)
    for model in (plain, other) if half else ():
        compute_as_autocast(model.bfloat16())
    expected, found = gradients(plain, half), gradients(other, half)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    # The re-entrant form runs its forward twice: without gradients, and with.
    assert counters["stats"]["unique_graphs"] == (2 if mode == "reentrant" else 1)
    assert not counters["graph_break"]


def test_blocks_that_differ_in_a_number_are_all_compiled() -> None:
    """More of them than the eight forms at which torch would go on uncompiled."""

    class Numbered(nn.Module):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index
            self.linear = nn.Linear(8, 8)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden + self.linear(hidden) * self.index

    model = nn.Module()
    model.blocks = nn.ModuleList(Numbered(index) for index in range(12))
    compile_blocks(model)
    hidden = torch.ones(2, 8)
    for block in model.blocks:
        hidden = block(hidden)
    assert not counters["graph_break"]
    assert counters["frames"]["ok"] == counters["frames"]["total"]
    assert torch._dynamo.config.fail_on_recompile_limit_hit


def test_names_classes_and_hooks_stay() -> None:
    model, hooked = gpt(), []
    block = type(model.blocks[0])
    model.blocks[0].register_forward_hook(lambda *_: hooked.append(1))
    compile_blocks(model)
    assert list(model.state_dict()) == list(gpt().state_dict())
    assert isinstance(model.blocks[0], block)
    assert type(model.blocks[0]).__name__ == "Block"
    gradients(model)
    assert len(hooked) == 1


def test_a_copy_runs_on_its_own_weights() -> None:
    model = gpt().eval()
    compile_blocks(model)
    twin = copy.deepcopy(model)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    with torch.no_grad():
        assert torch.equal(twin(TOKENS), gpt().eval()(TOKENS))


def test_a_model_without_blocks_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"compile=true compiles .* but Linear declares none"):
        compile_blocks(nn.Linear(2, 2))


def test_a_cpu_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ConfigError, match=r"compile=true on a CPU needs .* no no-such-compiler"):
        refuse_without_compiler("cpu")
    refuse_without_compiler("cuda")
