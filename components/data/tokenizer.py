"""Byte-level BPE tokenizers of the `tokenizers` library: trained, loaded, applied to long texts."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CHUNK = 1 << 16
"""Characters encoded at a time, about; a chunk ends at a line's end."""


def need_library(key: str) -> None:
    """Refuse `key` where the library is missing.

    Raises:
        ConfigError: with the command that installs it.
    """
    if find_spec("tokenizers") is None:
        raise ConfigError(
            f"data.{key} needs the tokenizers library, which is not installed: "
            "pip install 'shardlab[tokenizers]'"
        )


def load(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`.

    Raises:
        ConfigError: when the file is none.
    """
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower type
        raise ConfigError(f"data.tokenizer={path} is not a tokenizer's file: {error}") from error


def train(text: str, vocab_size: int) -> Tokenizer:
    """A byte-level BPE of at most `vocab_size` tokens; decoding what it encodes gives the text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_chunks(text), trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, text: str) -> NDArray[Any]:
    """The text's token ids, uint16 or, for a vocabulary beyond 65,536, uint32."""
    dtype = np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.uint32
    parts = [
        np.array(tokenizer.encode(chunk, add_special_tokens=False).ids, dtype)
        for chunk in _chunks(text)
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _chunks(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start + CHUNK) + 1 or len(text)
        yield text[start:end]
        start = end
