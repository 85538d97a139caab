"""Writes an export whole or not at all: tensor by tensor, read back, then moved into its place."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from components.checkpoint.sources import Source
from components.checkpoint.weights import layouts_in, size_of, write_tensors
from components.errors import ConfigError
from components.parallel.state import Layout

SUFFIX = ".safetensors"
FILE_BYTES = 5 * 10**9
"""A larger file is cut."""

READ_BYTES = 128 * 2**20
"""Read at a time, unless one tensor is larger."""


class Failed(Exception):
    """An export that was begun and could not be brought to its end."""


@dataclass(frozen=True)
class Target:
    """Where an export lands: `<stem>.safetensors` in a folder, or several files and their index."""

    folder: Path
    stem: str

    def files(self, number: int) -> list[str]:
        """The names of `number` files, as transformers and others expect them."""
        if number == 1:
            return [f"{self.stem}{SUFFIX}"]
        return [f"{self.stem}-{i:05d}-of-{number:05d}{SUFFIX}" for i in range(1, number + 1)]

    @property
    def index(self) -> str:
        """The file that says which of several files holds which tensor."""
        return f"{self.stem}{SUFFIX}.index.json"

    def there(self, beside: Collection[str]) -> list[Path]:
        """Files of an earlier export that this one would replace."""
        cut = re.compile(rf"{re.escape(self.stem)}-\d{{5}}-of-\d{{5}}{re.escape(SUFFIX)}")
        own = {f"{self.stem}{SUFFIX}", self.index, *beside}
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if p.name in own or cut.fullmatch(p.name))


def target_of(to: Path, stem: str, beside: Collection[str]) -> Target:
    """What `--to` means: a file by its suffix, else a folder.

    Args:
        stem: of files in a folder.
        beside: names of further files, which need a folder.

    Raises:
        ConfigError: for what is neither.
    """
    if to.is_dir() or (to.suffix != SUFFIX and not to.exists()):
        return Target(to, stem)
    if to.suffix != SUFFIX:
        raise ConfigError(f"--to {to} is a file. Give a folder, or a name that ends in {SUFFIX}.")
    if beside:
        raise ConfigError(
            f"--to {to}: {' and '.join(beside)} come with it. Give a folder, or take "
            "--format safetensors."
        )
    return Target(to.parent, to.stem)


@dataclass(frozen=True)
class Content:
    """What an export holds.

    Attributes:
        source: where tensors are read from.
        names: each with the source's name for it.
        dtype: of floating-point tensors; None leaves them as they are.
        infinite: names of the source whose tensors may hold what is not finite.
        metadata: stands in the files' headers.
    """

    source: Source
    names: dict[str, str]
    dtype: torch.dtype | None
    infinite: Collection[str]
    metadata: dict[str, str]

    def layouts(self) -> dict[str, Layout]:
        """The tensors as they are written."""
        return {name: self._written(self.source.layouts[own]) for name, own in self.names.items()}

    def main_dtype(self) -> torch.dtype:
        """The first type of floating-point tensors, as they are written."""
        types = [layout.dtype for layout in self.layouts().values()]
        return next((dtype for dtype in types if dtype.is_floating_point), torch.float32)

    def _written(self, layout: Layout) -> Layout:
        if self.dtype is None or not layout.dtype.is_floating_point:
            return layout
        return Layout(layout.shape, self.dtype)

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        """Tensors as they are written, a few at a time in memory.

        Raises:
            Failed: for a weight that is not finite.
        """
        for part in cut(names, self.source.layouts, self.names, READ_BYTES):
            held = {}
            for name in part:
                layout = self.source.layouts[self.names[name]]
                held[self.names[name]] = torch.empty(layout.shape, dtype=layout.dtype)
            self.source.read(held)
            for name in part:
                tensor = held[self.names[name]]
                if not self._finite(name, tensor):
                    raise Failed(f"{name} holds nan or inf in {self.source.path}")
                yield name, tensor.to(self._written(Layout(tensor.shape, tensor.dtype)).dtype)

    def _finite(self, name: str, tensor: Tensor) -> bool:
        return self.names[name] in self.infinite or bool(torch.isfinite(tensor).all())

    def check(self, path: Path, expected: dict[str, Layout]) -> None:
        """Hold a written file against what it should hold.

        Raises:
            Failed: naming the first tensor at fault.
        """
        from safetensors import safe_open

        found = layouts_in(path)
        for name in sorted(expected.keys() | found.keys()):
            if found.get(name) != expected.get(name):
                raise Failed(f"{path} has {name} as {found.get(name)}, not {expected.get(name)}")
        with safe_open(path, framework="pt") as file:
            for name in expected:
                if not self._finite(name, file.get_tensor(name)):
                    raise Failed(f"{name} has values beyond {self.dtype}: take another --dtype")


def cut(
    names: Sequence[str], layouts: dict[str, Layout], own: dict[str, str], limit: int
) -> list[list[str]]:
    """Names in their order, in groups of at most `limit` bytes or one tensor."""
    groups: list[list[str]] = []
    room = 0
    for name in names:
        size = size_of(layouts[own[name]])
        if not groups or size > room:
            groups.append([])
            room = limit
        groups[-1].append(name)
        room -= size
    return groups


def write(
    content: Content,
    target: Target,
    *,
    beside: Collection[str],
    write_beside: Callable[[Path, torch.dtype], None],
    force: bool,
    file_bytes: int = FILE_BYTES,
) -> Path:
    """Write an export; where it is: the file, or the folder with several.

    Args:
        beside: names of the files that `write_beside` writes into a folder, for a type of weights.
        force: replace an earlier export.

    Raises:
        ConfigError: when there is one already, or the source is damaged.
        Failed: when it cannot be written, or what was written is not what it should be.
    """
    before = target.there(beside)
    if before and not force:
        raise ConfigError(f"{before[0]} exists. Take another --to, or replace it by --force.")
    staging = target.folder / f".{target.stem}.{os.getpid()}.partial"
    try:
        staging.mkdir(parents=True)
        files = _write_into(staging, content, target, file_bytes)
        write_beside(staging, content.main_dtype())
        new = {path.name for path in staging.iterdir()}
        for name in new:
            os.replace(staging / name, target.folder / name)
        for path in before:
            if path.name not in new:
                path.unlink()
    except OSError as error:
        raise Failed(f"{error.strerror or error}: {target.folder}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        with suppress(OSError):  # not empty: it is there for a reason
            target.folder.rmdir()
    return target.folder / files[0] if len(files) == 1 else target.folder


def _write_into(staging: Path, content: Content, target: Target, file_bytes: int) -> list[str]:
    layouts = content.layouts()
    groups = cut(list(layouts), layouts, {name: name for name in layouts}, file_bytes)
    files = target.files(len(groups))
    for file, names in zip(files, groups, strict=True):
        own = {name: layouts[name] for name in names}
        write_tensors(staging / file, own, content.read(names), content.metadata)
        content.check(staging / file, own)
    if len(files) > 1:
        places = {name: file for file, names in zip(files, groups, strict=True) for name in names}
        size = sum(size_of(layout) for layout in layouts.values())
        index = {"metadata": {"total_size": size}, "weight_map": places}
        (staging / target.index).write_text(json.dumps(index, indent=2) + "\n")
    return files
