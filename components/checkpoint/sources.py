"""Weights to start from: a checkpoint's, or a safetensors file's, held against a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from components.checkpoint.manifest import Damaged, read_manifest
from components.checkpoint.snapshot import contents, read_weights
from components.checkpoint.storage import Unreadable
from components.checkpoint.weights import layouts_in
from components.errors import ConfigError
from components.parallel.state import Layout, persistent_buffers


class Source(ABC):
    """Named tensors on disk.

    Attributes:
        path: where they are.
        layouts: by plain name; a shared tensor under each of its names.
        tied: further names of a shared tensor, where that is known, and its first.
    """

    path: Path
    layouts: dict[str, Layout]
    tied: dict[str, str]

    @cached_property
    def shapes(self) -> dict[str, torch.Size]:
        """By plain name."""
        return {name: layout.shape for name, layout in self.layouts.items()}

    @abstractmethod
    def read(self, tensors: Mapping[str, Tensor]) -> None:
        """Fill `tensors` in place; each is known to be there in its shape.

        Raises:
            ConfigError: when the file is damaged.
        """


class CheckpointSource(Source):
    """A checkpoint's weights."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.tied = read_manifest(path).tied
            saved = contents(path).weights
        except (Damaged, Unreadable) as error:
            raise ConfigError(f"{path} cannot be read: {error}. Take an earlier one.") from error
        aliases = {alias: saved[name] for alias, name in self.tied.items() if name in saved}
        self.layouts = {**saved, **aliases}

    def read(self, tensors: Mapping[str, Tensor]) -> None:
        saved: dict[str, Tensor] = {}
        again: list[tuple[Tensor, Tensor]] = []
        for name, tensor in tensors.items():
            first = saved.setdefault(self.tied.get(name, name), tensor)
            if first is not tensor:
                again.append((tensor, first))
        try:
            read_weights(self.path, saved)
        except Unreadable as error:
            raise ConfigError(f"{error}. Take an earlier checkpoint.") from error
        for tensor, first in again:
            tensor.copy_(first)


class FileSource(Source):
    """A safetensors file, as a finished run leaves it."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError

        self.path = path
        self.tied = {}
        try:
            self.layouts = layouts_in(path)
        except (OSError, SafetensorError) as error:
            raise ConfigError(f"{path} is no safetensors file ({error}).") from error

    def read(self, tensors: Mapping[str, Tensor]) -> None:
        from safetensors import safe_open

        with safe_open(self.path, framework="pt") as file:
            for name, tensor in tensors.items():
                tensor.copy_(file.get_tensor(name))


@dataclass(frozen=True)
class Fit:
    """How a source's names and shapes meet a model's.

    Attributes:
        missing: the model's that the source lacks.
        unexpected: the source's that the model lacks.
        misshapen: those of both, in different shapes: name, in the source, in the model.
        fitting: how many of the model's are there in their shape.
    """

    missing: list[str]
    unexpected: list[str]
    misshapen: list[tuple[str, torch.Size, torch.Size]]
    fitting: int

    @property
    def exact(self) -> bool:
        """Whether they are the same."""
        return not (self.missing or self.unexpected or self.misshapen)

    def __str__(self) -> str:
        shapes = [f"{name} {list(a)} -> {list(b)}" for name, a, b in self.misshapen]
        return ", ".join(
            (
                f"{len(self.missing)} missing{_some(self.missing)}",
                f"{len(self.unexpected)} unexpected{_some(self.unexpected)}",
                *([f"{len(shapes)} of another shape{_some(shapes)}"] if shapes else []),
            )
        )


def _some(names: list[str]) -> str:
    return f" ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''})" if names else ""


def plain_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters, a shared one once, and its persistent buffers: live, by plain name."""
    return {**dict(model.named_parameters()), **persistent_buffers(model)}


def fit(source: Source, model: nn.Module) -> Fit:
    """Hold a source against a model, which may be on the meta device."""
    needed = plain_tensors(model)
    shapes = source.shapes
    misshapen = [
        (name, shapes[name], tensor.shape)
        for name, tensor in needed.items()
        if name in shapes and shapes[name] != tensor.shape
    ]
    missing = [name for name in needed if name not in shapes]
    return Fit(
        missing=missing,
        unexpected=sorted(shapes.keys() - model.state_dict().keys()),
        misshapen=misshapen,
        fitting=len(needed) - len(missing) - len(misshapen),
    )


@torch.no_grad()
def load(source: Source, model: nn.Module) -> int:
    """Fill whatever of a model the source has in its shape; the number of tensors."""
    fitting = {
        name: tensor
        for name, tensor in plain_tensors(model).items()
        if source.shapes.get(name) == tensor.shape
    }
    source.read(fitting)
    return len(fitting)
