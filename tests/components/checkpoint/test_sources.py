"""A model takes the weights that fit it, and is told which do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from components.checkpoint.snapshot import save
from components.checkpoint.sources import CheckpointSource, FileSource, Source, fit, load
from components.errors import ConfigError
from components.parallel.shard import Shard
from tests.components.checkpoint.made import control, manifest, snapshot


class Net(nn.Module):
    """Two layers, the second perhaps with the first's weight, and a batch norm's buffers."""

    def __init__(self, width: int = 3, tied: bool = False, norm: bool = False) -> None:
        super().__init__()
        self.a = nn.Linear(width, width, bias=False)
        self.b = nn.Linear(width, width, bias=False)
        if tied:
            self.b.weight = self.a.weight
        if norm:
            self.norm = nn.BatchNorm1d(width)
        self.register_buffer("mask", torch.ones(width), persistent=False)


def checkpoint_of(folder: Path, model: nn.Module, tied: dict[str, str] | None = None) -> Source:
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    tensors.pop("mask")
    pieces = {name: Shard.whole(tensor) for name, tensor in tensors.items()}
    one = replace(
        snapshot(), weights=pieces, optimizer={}, scalars={}, manifest=manifest(tied=tied or {})
    )
    return CheckpointSource(save(folder, one, control(), lambda: None))


def file_of(folder: Path, model: nn.Module) -> Source:
    path = folder / "weights.safetensors"
    save_file({name: t.clone() for name, t in model.state_dict().items()}, path)
    return FileSource(path)


@pytest.fixture(params=[checkpoint_of, file_of], ids=["checkpoint", "file"])
def source_of(request: pytest.FixtureRequest) -> object:
    return request.param


def test_an_exact_fit(tmp_path: Path, source_of: type) -> None:
    saved, model = Net(norm=True), Net(norm=True)
    saved.norm.running_mean.fill_(0.25)
    source = source_of(tmp_path, saved)
    assert fit(source, model).exact
    assert load(source, model) == 7  # two weights; weight, bias and three buffers of the norm
    for name, tensor in saved.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_what_does_not_fit(tmp_path: Path, source_of: type) -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 2, bias=False)
            self.c = nn.Linear(3, 3, bias=False)

    saved, model = Net(), Other()
    source = source_of(tmp_path, saved)
    found = fit(source, model)
    assert not found.exact
    assert (found.missing, found.unexpected) == (["c.weight"], ["b.weight"])
    assert found.misshapen == [("a.weight", (3, 3), (2, 3))]
    assert str(found) == (
        "1 missing (c.weight), 1 unexpected (b.weight), "
        "1 of another shape (a.weight [3, 3] -> [2, 3])"
    )
    before = model.c.weight.clone()
    assert load(source, model) == 0
    assert torch.equal(model.c.weight, before)


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    deep = nn.ModuleList(nn.Linear(1, 1) for _ in range(4))
    assert "8 missing (0.weight, 0.bias, 1.weight, 1.bias, 2.weight, 2.bias, ...)" in str(
        fit(file_of(tmp_path, Net()), deep)
    )


def test_a_model_on_the_meta_device_is_held_against_it(tmp_path: Path) -> None:
    with torch.device("meta"):
        model = Net()
    assert fit(checkpoint_of(tmp_path, Net()), model).exact


def test_tied_weights_into_tied_ones(tmp_path: Path, source_of: type) -> None:
    saved, model = Net(tied=True), Net(tied=True)
    source = tied(source_of, tmp_path, saved)
    assert fit(source, model).exact
    assert load(source, model) == 1
    assert torch.equal(model.b.weight, saved.a.weight)
    assert model.a.weight is model.b.weight


def test_tied_weights_into_two_of_their_own(tmp_path: Path, source_of: type) -> None:
    saved, model = Net(tied=True), Net()
    source = tied(source_of, tmp_path, saved)
    assert fit(source, model).exact
    assert load(source, model) == 2
    assert torch.equal(model.a.weight, saved.a.weight)
    assert torch.equal(model.b.weight, saved.a.weight)


def tied(source_of: type, folder: Path, model: nn.Module) -> Source:
    if source_of is file_of:
        return file_of(folder, model)
    return checkpoint_of(folder, model, {"b.weight": "a.weight"})


def test_other_types_are_converted(tmp_path: Path) -> None:
    saved = Net()
    model = Net().to(torch.bfloat16)
    load(checkpoint_of(tmp_path, saved), model)
    assert model.a.weight.dtype == torch.bfloat16
    assert torch.equal(model.a.weight, saved.a.weight.to(torch.bfloat16))


def test_no_safetensors_file(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_text("none")
    with pytest.raises(ConfigError, match=r"weights\.safetensors is no safetensors file"):
        FileSource(tmp_path / "weights.safetensors")


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    source = checkpoint_of(tmp_path, Net())
    (data,) = source.path.glob("*.distcp")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(ConfigError, match=r"step-000004.*Take an earlier"):
        load(source, Net())
    (source.path / ".metadata").unlink()
    with pytest.raises(ConfigError, match=r"\.metadata.*Take an earlier one"):
        CheckpointSource(source.path)
