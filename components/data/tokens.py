"""A user's own tokens or text, from a file."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from components.data.base import Data, EpochEnd, Pair
from components.data.prepared import prepare_once
from components.data.text import BYTES, bits, fingerprint
from components.data.text_file import encode_text
from components.data.token_file import check_array, check_ids, holds_tokens, token_file_facts
from components.data.token_samples import TokenSamples, token_pair
from components.data.tokenizer import need_library
from components.errors import ConfigError


class Tokens(Data):
    """Samples of seq_len + 1 tokens, cut without overlap from a file.

    A `.npy` (one dimension, unsigned integers) or `.bin` (raw) file holds
    token ids and is mapped into memory where it lies. Any other file is text:
    taken by bytes, or encoded once into the cache with a tokenizer.

    Args:
        path: the file.
        cache_dir: holds what is made or found out from the file.
        seq_len: tokens of an input.
        vocab_size: token ids lie below; models read it off the configuration.
        val_path: the validation file, of the same kind; None takes the end of `path`.
        val_fraction: that end's share; 0 for no validation.
        val_samples: evaluate on so many samples, evenly spaced; None takes all.
        dtype: of a `.bin` file's ids.
        tokenizer: a `tokenizer.json` to encode text with.
        train_vocab_size: train a byte-level BPE of this size on the text instead.

    Raises:
        ConfigError: for a file that is missing, too short, or not what it should
            be, and for options that contradict each other; by `prepare` for token
            ids that `vocab_size` does not cover.
    """

    def __init__(
        self,
        *,
        path: str,
        cache_dir: str,
        seq_len: int = 128,
        vocab_size: int = BYTES,
        val_path: str | None = None,
        val_fraction: float = 0.05,
        val_samples: int | None = 256,
        dtype: Literal["uint16", "uint32"] = "uint16",
        tokenizer: str | None = None,
        train_vocab_size: int | None = None,
        num_workers: int = 0,
        epoch_end: EpochEnd = "drop",
        shuffle: bool = True,
    ) -> None:
        super().__init__(num_workers=num_workers, epoch_end=epoch_end, shuffle=shuffle)
        if seq_len < 1 or (val_samples is not None and val_samples < 1):
            raise ConfigError(
                f"data.seq_len={seq_len} and data.val_samples={val_samples} must be at least 1."
            )
        if not 0.0 <= val_fraction < 1.0:
            raise ConfigError(f"data.val_fraction={val_fraction} must be in [0, 1).")
        if dtype not in ("uint16", "uint32"):
            raise ConfigError(f"data.dtype={dtype} must be uint16 or uint32.")
        self.path = _existing("path", path)
        self.val_path = _existing("val_path", val_path) if val_path else None
        self.tokenizer = _existing("tokenizer", tokenizer) if tokenizer else None
        self.train_vocab_size = train_vocab_size
        self.cache_dir = Path(cache_dir)
        self.seq_len = seq_len
        self.vocab_size = vocab_size
        self.val_fraction = val_fraction
        self.val_samples = val_samples
        self.dtype = dtype
        self._check_files()
        self._check_tokenizer()

    def prepare(self) -> None:
        prepare_once(self._directory, self._build)
        parts = {name: self._facts[name] for name in ("train", "val") if self._facts[name]}
        check_ids(self.path, max(part["highest"] for part in parts.values()), self.vocab_size)
        for name, part in parts.items():
            tokens = part["stop"] - part["start"]
            if tokens <= self.seq_len:
                key = "val_path" if name == "val" and self.val_path else "path"
                raise ConfigError(
                    f"data.{key}={getattr(self, key)}: {tokens} tokens for {name} are too few, "
                    f"one sample takes {self.seq_len + 1}. Take a longer file, a shorter "
                    f"data.seq_len, or another data.val_fraction (it is {self.val_fraction})."
                )

    def train_set(self) -> TokenSamples:
        return self._samples(self._facts["train"], None)

    def val_set(self) -> TokenSamples | None:
        facts = self._facts["val"]
        return None if facts is None else self._samples(facts, self.val_samples)

    def example(self) -> Pair:
        return token_pair(self.seq_len)

    def record(self) -> dict[str, Any]:
        val_set = self.val_set()
        return {
            "fingerprint": self._facts["fingerprint"],
            "path": str(self.path),
            "train_samples": len(self.train_set()),
            "val_samples": 0 if val_set is None else len(val_set),
            "baselines": self.baselines(),
        }

    def derive(self, metrics: dict[str, float]) -> dict[str, float]:
        """`bits_per_byte` for text (by the validation text's mean token), else `bits_per_token`."""
        if "loss" not in metrics:
            return {}
        per_token = bits(metrics["loss"])
        if self._facts["bytes_per_token"] is None:
            return {"bits_per_token": per_token}
        return {"bits_per_byte": per_token / self._facts["bytes_per_token"]}

    def baselines(self) -> dict[str, float]:
        return dict(self._facts["baselines"])

    def _check_files(self) -> None:
        for key, path in (("path", self.path), ("val_path", self.val_path)):
            if path is None:
                continue
            if holds_tokens(path) != holds_tokens(self.path):
                raise ConfigError(
                    f"data.val_path={self.val_path} and data.path={self.path} must both hold "
                    "token ids (.bin, .npy) or both hold text."
                )
            if holds_tokens(path):
                check_array(key, path, self.dtype)
            # No token is smaller than a byte, whatever the kind.
            if path.stat().st_size <= self.seq_len:
                raise ConfigError(
                    f"data.{key}={path} has {path.stat().st_size} bytes, too short for one "
                    f"sample, which takes data.seq_len + 1 = {self.seq_len + 1} tokens."
                )

    def _check_tokenizer(self) -> None:
        chosen = {"tokenizer": self.tokenizer, "train_vocab_size": self.train_vocab_size}
        keys = [key for key, value in chosen.items() if value is not None]
        if not keys:
            return
        if len(keys) == 2:
            raise ConfigError(
                f"data.tokenizer={self.tokenizer} and data.train_vocab_size="
                f"{self.train_vocab_size} exclude each other: load a tokenizer or train one."
            )
        if holds_tokens(self.path):
            raise ConfigError(
                f"data.{keys[0]}={chosen[keys[0]]} is for text, and data.path={self.path} holds "
                "token ids already. Leave it out."
            )
        if (
            self.train_vocab_size is not None
            and not BYTES <= self.train_vocab_size <= self.vocab_size
        ):
            raise ConfigError(
                f"data.train_vocab_size={self.train_vocab_size} must be at least {BYTES} and at "
                f"most data.vocab_size={self.vocab_size}. Set data.vocab_size to the same number."
            )
        need_library(keys[0])

    @cached_property
    def _directory(self) -> Path:
        """Named after the files' paths, sizes and times, and the options that change the tokens."""
        files = [
            (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns)
            for path in (self.path, self.val_path, self.tokenizer)
            if path is not None
        ]
        key = repr((files, self.val_fraction, self.dtype, self.train_vocab_size))
        return self.cache_dir / f"tokens-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return json.loads((self._directory / "facts.json").read_text())

    def _samples(self, facts: dict[str, Any], limit: int | None) -> TokenSamples:
        # A name relative to the cache for text, the user's own absolute path for tokens.
        path = self._directory / facts["file"]
        start, stop = facts["start"], facts["stop"]
        return TokenSamples(path, facts["dtype"], self.seq_len, start=start, stop=stop, limit=limit)

    def _build(self, directory: Path) -> None:
        sources = [path for path in (self.path, self.val_path) if path is not None]
        facts: dict[str, Any] = {"fingerprint": fingerprint(*sources)}
        if holds_tokens(self.path):
            facts |= token_file_facts(
                self.path, self.val_path, self.val_fraction, self.dtype, self.vocab_size
            )
        else:
            facts |= encode_text(
                self.path,
                self.val_path,
                self.val_fraction,
                directory,
                tokenizer=self.tokenizer,
                train_vocab_size=self.train_vocab_size,
            )
        (directory / "facts.json").write_text(json.dumps(facts))


def _existing(key: str, value: str) -> Path:
    path = Path(value).expanduser()
    if not path.is_file():
        raise ConfigError(f"data.{key}={value}: there is no such file (seen from {Path.cwd()}).")
    return path
