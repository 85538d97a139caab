from __future__ import annotations

import copy
import gc
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from components.errors import ConfigError
from components.model.convnet import ConvNet
from components.model.gpt import GPT
from components.model.huggingface import CausalLM
from components.parallel.activation_checkpointing import checkpoint_blocks

MODES = ["full", "selective", "reentrant"]


def gpt() -> GPT:
    torch.manual_seed(0)
    return GPT(vocab_size=16, seq_len=8, layers=2, heads=2, width=16, dropout=0.2)


def convnet() -> ConvNet:
    torch.manual_seed(0)
    return ConvNet(channels=1, image_size=8, width=4, layers=2, classes=5)


def llama() -> CausalLM:
    torch.manual_seed(0)
    return CausalLM(
        architecture="LlamaForCausalLM",
        config={
            "vocab_size": 16,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_position_embeddings": 8,
            "bos_token_id": None,
            "eos_token_id": None,
        },
    )


TOKENS = torch.arange(16).view(2, 8)
IMAGES = torch.linspace(-1, 1, 3 * 64).view(3, 1, 8, 8)


def train_once(model: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """Loss and gradients of one forward and backward, with the same random state each time."""
    torch.manual_seed(1)
    loss = model(inputs).square().mean()
    loss.backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"loss": loss.detach()} | gradients


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("make", "inputs"), [(gpt, TOKENS), (convnet, IMAGES), (llama, TOKENS)])
def test_gradients_and_buffers_are_the_same(make: Any, inputs: Tensor, mode: Any) -> None:
    plain, recomputed = make(), make()
    checkpoint_blocks(recomputed, mode)
    expected, found = train_once(plain, inputs), train_once(recomputed, inputs)
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name
    for (name, kept), buffer in zip(plain.named_buffers(), recomputed.buffers(), strict=True):
        assert torch.equal(kept, buffer), name


@pytest.mark.parametrize(
    ("mode", "calls"), [("none", 1), ("full", 2), ("selective", 2), ("reentrant", 2)]
)
def test_blocks_run_again_in_the_backward(mode: Any, calls: int) -> None:
    model = gpt()
    checkpoint_blocks(model, mode)
    seen = []
    model.blocks[0].attention.register_forward_pre_hook(lambda *_: seen.append(1))
    train_once(model, TOKENS)
    assert len(seen) == calls


@pytest.mark.parametrize("mode", MODES)
def test_names_classes_and_hooks_stay(mode: Any) -> None:
    model = gpt()
    block = type(model.blocks[0])
    hooked = []
    model.blocks[0].register_forward_hook(lambda *_: hooked.append(1))
    checkpoint_blocks(model, mode)
    assert list(model.state_dict()) == list(gpt().state_dict())
    assert isinstance(model.blocks[0], block)
    assert type(model.blocks[0]).__name__ == block.__name__
    train_once(model, TOKENS)
    assert len(hooked) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_runs_on_its_own_weights(mode: Any) -> None:
    model = gpt().eval()
    checkpoint_blocks(model, mode)
    twin = copy.deepcopy(model)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(twin(TOKENS), gpt().eval()(TOKENS))


@pytest.mark.parametrize("mode", MODES)
def test_blocks_train_on_frozen_embeddings(mode: Any) -> None:
    plain, recomputed = gpt(), gpt()
    for model in (plain, recomputed):
        model.stem.requires_grad_(False)
    checkpoint_blocks(recomputed, mode)
    expected, found = train_once(plain, TOKENS), train_once(recomputed, TOKENS)
    name = "blocks.0.attention.qkv.weight"
    assert torch.equal(found[name], expected[name])


@pytest.mark.parametrize("mode", MODES)
def test_autocast_is_replayed(mode: Any) -> None:
    plain, recomputed = gpt(), gpt()
    checkpoint_blocks(recomputed, mode)
    found = []
    for model in (plain, recomputed):
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(TOKENS)
        F.cross_entropy(logits.float().flatten(0, 1), TOKENS.flatten()).backward()
        found.append(model.blocks[0].mlp.up.weight.grad)
    assert torch.equal(*found)


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_is_the_same(mode: Any) -> None:
    plain, recomputed = gpt().eval(), gpt().eval()
    checkpoint_blocks(recomputed, mode)
    with torch.no_grad():
        assert torch.equal(plain(TOKENS), recomputed(TOKENS))


@pytest.mark.parametrize("mode", MODES)
def test_a_block_that_is_listed_twice_runs_twice(mode: Any) -> None:
    plain, recomputed = gpt(), gpt()
    for model in (plain, recomputed):
        model.blocks[1] = model.blocks[0]
    checkpoint_blocks(recomputed, mode)
    expected, found = train_once(plain, TOKENS), train_once(recomputed, TOKENS)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_model_without_blocks_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"model.checkpointing=full .* Linear"):
        checkpoint_blocks(nn.Linear(2, 2), "full")


def test_none_asks_nothing_of_the_model() -> None:
    checkpoint_blocks(nn.Linear(2, 2), "none")


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.checkpointing=half"):
        checkpoint_blocks(gpt(), "half")  # type: ignore[arg-type]


class Counted(TorchDispatchMode):
    """Counts operations by their name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func._opname] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("mode", "products"), [("none", 0), ("full", 4), ("selective", 0)])
def test_what_is_computed_again(mode: Any, products: int) -> None:
    """A block has four matrix products with weights and a GELU; each is differentiated by two."""
    model = gpt()
    checkpoint_blocks(model, mode)
    with Counted() as counted:
        train_once(model, TOKENS)
    blocks, head = 2, 1
    assert counted.calls["mm"] == 3 * (4 * blocks + head) + products * blocks
    assert counted.calls["gelu"] == blocks * (1 if mode == "none" else 2)


def held_after_forward(mode: Any) -> int:
    """Bytes that the graph of a forward keeps, parameters aside."""
    model = gpt()
    checkpoint_blocks(model, mode)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    before = {id(tensor) for tensor in gc.get_objects() if isinstance(tensor, Tensor)}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(TOKENS.repeat(8, 1)).square().mean()
    for tensor in gc.get_objects():  # what the selective form keeps is no graph's
        if isinstance(tensor, Tensor) and id(tensor) not in before and not tensor.requires_grad:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                kept[storage.data_ptr()] = storage.nbytes()
    loss.backward()
    return sum(kept.values())


def test_what_is_kept() -> None:
    none, selective, full = map(held_after_forward, ("none", "selective", "full"))
    assert full < 0.5 * none
    assert full < selective < none
