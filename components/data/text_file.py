"""A text file, turned into token files once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.data import tokenizer as bpe
from components.data.text import byte_baselines
from components.errors import ConfigError


def encode_text(
    path: Path,
    val_path: Path | None,
    val_fraction: float,
    directory: Path,
    *,
    tokenizer: Path | None,
    train_vocab_size: int | None,
) -> dict[str, Any]:
    """Write `train.bin` and `val.bin` into `directory`, and return the facts about them.

    Tokens are bytes, or those of `tokenizer`, or of one trained on the
    training text; a tokenizer is kept beside them as `tokenizer.json`.

    Returns:
        As `token_file.token_file_facts`; `bytes_per_token` is the validation text's mean.

    Raises:
        ConfigError: where a tokenizer is asked to read what is not UTF-8.
    """
    train = path.read_bytes()
    if val_path:
        val = val_path.read_bytes()
    else:
        cut = _character(train, len(train) - int(len(train) * val_fraction))
        train, val = train[:cut], train[cut:]
    encode = _encoder(path, train, directory, tokenizer, train_vocab_size)
    facts = {
        "train": _write(encode(train), directory / "train.bin"),
        "val": None,
        "bytes_per_token": 1.0,
        "baselines": {},
    }
    if not val:
        return facts
    part = _write(encode(val), directory / "val.bin")
    return facts | {
        "val": part,
        "bytes_per_token": len(val) / part["stop"],
        "baselines": byte_baselines(train, val),
    }


def _encoder(
    path: Path,
    train: bytes,
    directory: Path,
    tokenizer: Path | None,
    train_vocab_size: int | None,
) -> Callable[[bytes], NDArray[Any]]:
    if tokenizer is not None:
        chosen = bpe.load(tokenizer)
    elif train_vocab_size is not None:
        chosen = bpe.train(_decoded(path, train), train_vocab_size)
    else:
        return lambda text: np.frombuffer(text, np.uint8)
    chosen.save(str(directory / "tokenizer.json"))
    return lambda text: bpe.encode(chosen, _decoded(path, text))


def _decoded(path: Path, text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"data.path={path} is not UTF-8 text ({error.reason} at byte {error.start}). "
            "Leave out the tokenizer to train on its bytes."
        ) from error


def _character(text: bytes, position: int) -> int:
    """The first start of a UTF-8 character from `position` on."""
    while position < len(text) and text[position] & 0xC0 == 0x80:
        position += 1
    return position


def _write(tokens: NDArray[Any], file: Path) -> dict[str, Any]:
    tokens.tofile(file)
    return {
        "file": file.name,
        "dtype": str(tokens.dtype),
        "start": 0,
        "stop": len(tokens),
        "highest": int(tokens.max()),
    }
