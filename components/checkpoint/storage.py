"""Named tensors on disk, through `torch.distributed.checkpoint`: written in pieces, read in others.

https://docs.pytorch.org/docs/stable/distributed.checkpoint.html. A folder of this kind is
readable with torch alone, as by `torch.distributed.checkpoint.format_utils.dcp_to_torch_save`.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from components.parallel.shard import Box, Shard
from components.parallel.state import Layout

INDEX = ".metadata"
"""The file in which `torch.distributed.checkpoint` says where each tensor's parts are."""

CHECKPOINT = "torch.distributed.checkpoint"
NAMED = {
    *(
        (f"{CHECKPOINT}.metadata", name)
        for name in (
            "Metadata",
            "MetadataIndex",
            "StorageMeta",
            "TensorProperties",
            "TensorStorageMetadata",
            "ChunkStorageMetadata",
            "_MEM_FORMAT_ENCODING",
        )
    ),
    (f"{CHECKPOINT}.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("pathlib", "PosixPath"),
    ("pathlib", "Path"),
}
"""All that an index names: data about tensors, nothing that runs code."""

# Both of its notices are told by the call itself: one process, and no process group needed.
warnings.filterwarnings(
    "ignore", "torch.distributed is disabled, unavailable or uninitialized", UserWarning
)


class Unreadable(Exception):
    """A checkpoint's file does not hold what it should."""


class Unwritable(Exception):
    """Some rank could not write its part of a checkpoint."""


def write(tensors: Mapping[str, Shard], folder: Path, group: dist.ProcessGroup | None) -> None:
    """Write every rank's pieces into `folder`, to the disk itself. Call on all ranks.

    A piece that several ranks hold is written by one of them.

    Args:
        tensors: a name that this rank holds nothing of may be missing.
        group: over which ranks agree, on the CPU; None for a single process.

    Raises:
        Unwritable: on all ranks, when one cannot write its part.
    """
    writer = FileSystemWriter(folder, single_file_per_rank=True, sync_files=True, overwrite=True)
    try:
        dcp.save(
            dict(tensors),
            storage_writer=writer,
            planner=_SavePlanner(),
            process_group=group,
            no_dist=group is None,
        )
    except CheckpointException as error:  # which is no Exception
        raise Unwritable(f"{folder}: {_innermost(error)}") from error


def read(tensors: Mapping[str, Shard], folder: Path) -> None:
    """Fill this rank's pieces, in place, from `folder`. No collective.

    Raises:
        Unreadable: when a tensor is missing or cannot be read.
    """
    held = {name: shard for name, shard in tensors.items() if shard.boxes}
    try:
        dcp.load(dict(held), storage_reader=_Reader(folder), planner=_LoadPlanner(), no_dist=True)
    except (Exception, CheckpointException) as error:  # torch's own is no Exception
        raise Unreadable(f"{folder}: {_innermost(error)}") from error


def layout(folder: Path) -> dict[str, Layout]:
    """The tensors in `folder` by name.

    Raises:
        Unreadable: when its index is damaged, or names what an index never does.
    """
    entries = _Reader(folder).tensors()
    return {name: Layout(entry.size, entry.properties.dtype) for name, entry in entries.items()}


def _innermost(error: BaseException) -> str:
    failures = getattr(error, "failures", None)  # of a CheckpointException
    if failures:
        wrapped = next(iter(failures.values()))
        error = wrapped[0] if isinstance(wrapped, tuple) else wrapped
    lines = str(error).splitlines()
    said = lines[0] if lines else ""
    return said if isinstance(error, Unreadable) else f"{type(error).__name__}: {said}"


class _SavePlanner(DefaultSavePlanner):
    """Plans to write the boxes of shards."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan(
            [
                _write_item(name, shard, box)
                for name, shard in self.state_dict.items()
                for box in shard.boxes
            ]
        )
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        return _part(self.state_dict[index.fqn], index)


def _write_item(name: str, shard: Shard, box: Box) -> WriteItem:
    return WriteItem(
        index=MetadataIndex(name, box.offsets),
        type=WriteItemType.SHARD,
        tensor_data=TensorWriteData(
            chunk=_chunk(box),
            properties=TensorProperties(dtype=shard.dtype),
            size=shard.shape,
        ),
    )


class _LoadPlanner(DefaultLoadPlanner):
    """Plans to fill the boxes of shards."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def set_up_planner(
        self, state_dict: Any, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        items = []
        for name, shard in self.state_dict.items():
            entry = self.metadata.state_dict_metadata.get(name)
            if not isinstance(entry, TensorStorageMetadata):
                raise Unreadable(f"the checkpoint has no tensor {name}")
            if entry.size != shard.shape:
                raise Unreadable(
                    f"{name} has shape {list(entry.size)} in the checkpoint and "
                    f"{list(shard.shape)} in this run"
                )
            items += create_read_items_for_chunk_list(
                name, entry, [_chunk(box) for box in shard.boxes]
            )
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        return _part(self.state_dict[index.fqn], index)


def _chunk(box: Box) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(offsets=box.offsets, sizes=box.elements.shape)


def _part(shard: Shard, index: MetadataIndex) -> Tensor:
    return next(box.elements for box in shard.boxes if box.offsets == index.offset)


class _Reader(FileSystemReader):
    """Torch's reader of files, which unpickles the index, with an eye on what that names."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = Path(self.path) / INDEX
        try:
            with path.open("rb") as file:
                metadata = _IndexUnpickler(file).load()
            if not isinstance(metadata, Metadata):
                raise Unreadable("it is no index")
        except Exception as error:
            raise Unreadable(f"{path}: {_innermost(error)}") from error
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def tensors(self) -> dict[str, TensorStorageMetadata]:
        """What the index lists, by name.

        Raises:
            Unreadable: for anything but tensors: that is a pickled object, which reading would run.
        """
        found = {}
        for name, entry in self.read_metadata().state_dict_metadata.items():
            if not isinstance(entry, TensorStorageMetadata):
                raise Unreadable(f"{self.path} lists {name}, which is not a tensor")
            found[name] = entry
        return found


class _IndexUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        a_type = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if a_type or (module, name) in NAMED:
            return super().find_class(module, name)
        raise Unreadable(f"its index names {module}.{name}, which no checkpoint needs")
