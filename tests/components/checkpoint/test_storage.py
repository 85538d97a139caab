"""Pieces of tensors on disk: written in some boxes, read in others; nothing that runs code."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from components.checkpoint import storage
from components.checkpoint.storage import INDEX, Unreadable
from components.parallel.shard import Box, Shard
from components.parallel.state import Layout


def test_written_in_runs_read_in_rows(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(4, 3)
    # As three ranks hold it: elements 0-4, 5-6, 7-11.
    pieces = [Shard.run(whole.flatten()[a:b].clone(), whole.shape, a) for a, b in BOUNDS]
    boxes = tuple(box for piece in pieces for box in piece.boxes)
    storage.write({"w": Shard(whole.shape, whole.dtype, boxes)}, tmp_path, None)
    rows = torch.zeros(2, 3)
    storage.read({"w": Shard.rows(rows, whole.shape, 1)}, tmp_path)
    assert rows.tolist() == [[3, 4, 5], [6, 7, 8]]
    part = torch.zeros(4)
    storage.read({"w": Shard.run(part, whole.shape, 4)}, tmp_path)
    assert part.tolist() == [4, 5, 6, 7]


BOUNDS = ((0, 5), (5, 7), (7, 12))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([1, 2], dtype=torch.int64),
        torch.tensor([True, False]),
        torch.zeros(0, 3),
        torch.arange(6.0).view(2, 3).t(),
    ],
    ids=["scalar", "bfloat16", "int64", "bool", "empty", "transposed"],
)
def test_what_is_written_is_read(tmp_path: Path, tensor: torch.Tensor) -> None:
    storage.write({"x": Shard.whole(tensor)}, tmp_path, None)
    assert storage.layout(tmp_path) == {"x": Layout(tensor.shape, tensor.dtype)}
    back = torch.empty_like(tensor)
    storage.read({"x": Shard.whole(back)}, tmp_path)
    assert torch.equal(back, tensor)


def test_the_dtype_of_the_reader_wins(tmp_path: Path) -> None:
    storage.write({"x": Shard.whole(torch.tensor([1.5]))}, tmp_path, None)
    half = torch.zeros(1, dtype=torch.bfloat16)
    storage.read({"x": Shard.whole(half)}, tmp_path)
    assert half.tolist() == [1.5]


def test_a_shard_without_boxes_asks_for_nothing(tmp_path: Path) -> None:
    storage.write({"x": Shard.whole(torch.ones(1))}, tmp_path, None)
    storage.read({"elsewhere": Shard(torch.Size([3]), torch.float32, ())}, tmp_path)


def test_a_missing_tensor_and_one_of_another_shape(tmp_path: Path) -> None:
    storage.write({"x": Shard.whole(torch.ones(2))}, tmp_path, None)
    with pytest.raises(Unreadable, match="no tensor y"):
        storage.read({"y": Shard.whole(torch.ones(2))}, tmp_path)
    with pytest.raises(Unreadable, match=r"x has shape \[2\] in the checkpoint and \[3\]"):
        storage.read({"x": Shard.whole(torch.ones(3))}, tmp_path)


def test_it_is_readable_with_torch_alone(tmp_path: Path) -> None:
    storage.write({"x": Shard.whole(torch.arange(3.0))}, tmp_path / "saved", None)
    dcp_to_torch_save(tmp_path / "saved", tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt", weights_only=True)
    assert whole["x"].tolist() == [0, 1, 2]


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> object:
        return os.system, (f"touch {self.proof}",)


def test_an_index_that_names_a_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(pickle.dumps(Evil(tmp_path / "proof")))
    with pytest.raises(Unreadable, match=r"(posix|os)\.system, which no checkpoint needs"):
        storage.layout(tmp_path)
    with pytest.raises(Unreadable, match=r"(posix|os)\.system"):
        storage.read({"x": Shard.whole(torch.ones(1))}, tmp_path)
    assert not (tmp_path / "proof").exists()


def test_a_pickled_object_is_refused(tmp_path: Path) -> None:
    dcp.save({"x": torch.ones(1), "thing": {"a"}}, checkpoint_id=tmp_path, no_dist=True)
    with pytest.raises(Unreadable, match="BytesStorageMetadata, which no checkpoint needs"):
        storage.layout(tmp_path)
    with pytest.raises(Unreadable, match="BytesStorageMetadata"):
        storage.read({"thing": Shard.whole(torch.ones(1))}, tmp_path)


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x04N."], ids=["empty", "text", "none"])
def test_a_broken_index_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / INDEX).write_bytes(content)
    with pytest.raises(Unreadable, match=r"\.metadata"):
        storage.layout(tmp_path)


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    storage.write({"x": Shard.whole(torch.ones(1))}, tmp_path, None)
    (tmp_path / "__0_0.distcp").unlink()
    with pytest.raises(Unreadable, match=r"__0_0\.distcp"):
        storage.read({"x": Shard.whole(torch.zeros(1))}, tmp_path)


def test_live_views_are_filled(tmp_path: Path) -> None:
    storage.write({"x": Shard.whole(torch.arange(4.0))}, tmp_path, None)
    live = torch.zeros(8)
    box = Box(torch.Size([0]), live[::2])  # not contiguous
    storage.read({"x": Shard(torch.Size([4]), torch.float32, (box,))}, tmp_path)
    assert live.tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
