"""Files of weights, keyed as the plain module: safetensors, written one tensor at a time.

The format: 8 bytes with the length of a JSON header, the header (type, shape and place of each
tensor), and the tensors' bytes, row-major and little-endian.
https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from components.parallel.state import Layout

FILE = "weights.safetensors"
"""What a finished run leaves."""

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
}
"""Types by the format's names for them."""

NAMES = {dtype: name for name, dtype in TYPES.items()}
ALIGNMENT = 8


def size_of(layout: Layout) -> int:
    """A tensor's bytes."""
    return math.prod(layout.shape) * layout.dtype.itemsize


def write_tensors(
    path: Path,
    layouts: Mapping[str, Layout],
    tensors: Iterable[tuple[str, Tensor]],
    metadata: Mapping[str, str],
) -> None:
    """Write a safetensors file, to the disk itself, holding no more than one tensor at a time.

    Args:
        layouts: of all tensors that the file will hold.
        tensors: each of them once, in any order.

    Raises:
        ValueError: for a tensor that is not in `layouts` as it is there, and for one left out.
        OSError: when there is no room.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt", **metadata}}
    starts: dict[str, int] = {}
    end = 0
    # The widest types first: every tensor then begins at a multiple of its elements' size.
    for name in sorted(layouts, key=lambda name: (-layouts[name].dtype.itemsize, name)):
        layout = layouts[name]
        starts[name], end = end, end + size_of(layout)
        header[name] = {
            "dtype": NAMES[layout.dtype],
            "shape": list(layout.shape),
            "data_offsets": [starts[name], end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        first = file.tell()
        for name, tensor in tensors:
            if name not in starts or Layout(tensor.shape, tensor.dtype) != layouts[name]:
                raise ValueError(f"{path}: {name} is not as it was announced")
            file.seek(first + starts.pop(name))
            # Through a view as bytes: NumPy has no bfloat16.
            elements = tensor.detach().cpu().contiguous().reshape(-1)
            file.write(elements.view(torch.uint8).numpy().data)
        if starts:
            raise ValueError(f"{path}: {', '.join(sorted(starts)[:6])} left out")
        file.flush()
        os.fsync(file.fileno())


def layouts_in(path: Path) -> dict[str, Layout]:
    """The tensors of a safetensors file, by name.

    Raises:
        OSError, SafetensorError: when it cannot be read.
        KeyError: for a type that no weight has.
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in list(file.keys())}
        return {
            name: Layout(torch.Size(entry.get_shape()), TYPES[entry.get_dtype()])
            for name, entry in slices.items()
        }


def save_weights(folder: Path, weights: dict[str, Tensor], expected: dict[str, torch.Size]) -> Path:
    """Write `weights` whole or not at all, and check what the file then holds.

    Args:
        weights: fp32 masters on the CPU by plain name; tied ones under each of their names.
        expected: the plain module's names and shapes.

    Raises:
        RuntimeError: when the file lacks a weight or holds one of another shape.
    """
    path = folder / FILE
    temporary = path.with_suffix(".partial")
    layouts = {name: Layout(tensor.shape, tensor.dtype) for name, tensor in weights.items()}
    write_tensors(temporary, layouts, weights.items(), {})
    shapes = {name: layout.shape for name, layout in layouts_in(temporary).items()}
    if shapes != expected:
        wrong = sorted(set(shapes.items()) ^ set(expected.items()))
        raise RuntimeError(f"{temporary} differs from the model in {wrong[:6]}")
    os.replace(temporary, path)
    return path
