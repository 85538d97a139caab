"""Made-up samples of any size, for benchmarks and comparisons."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import torch

from components.data.base import Data, EpochEnd, Pair
from components.data.tensor_samples import TensorSamples
from components.data.text import fingerprint
from components.data.token_samples import token_pair
from components.errors import ConfigError
from components.objective import IGNORE


class Synthetic(Data):
    """Seeded random samples, held in memory.

    `tokens`: each next token is the last one plus a random step of 1 to 4, modulo the
    vocabulary; int64 (seq_len,) inputs and targets. The best possible loss is ln 4.
    `features`: normal float32 (in_features,) inputs; the target is the largest of
    `classes` random linear functions.

    Args:
        kind: `tokens` or `features`.
        train_samples, val_samples: how many; no validation with 0.
        vocab_size, seq_len: of `tokens`.
        in_features, classes: of `features`.
        masked_fraction: the share of targets, up to 0.5, that carry no loss.
            For `tokens` a tail of each sample is masked, of a length uniform in
            [0, 2 * masked_fraction * seq_len]: so samples count differently.
        seed: of the samples themselves; apart from the run's seed.

    Raises:
        ConfigError: for sizes or fractions out of range.
    """

    def __init__(
        self,
        *,
        kind: Literal["tokens", "features"] = "tokens",
        train_samples: int = 4096,
        val_samples: int = 256,
        vocab_size: int = 256,
        seq_len: int = 128,
        in_features: int = 64,
        classes: int = 10,
        masked_fraction: float = 0.0,
        seed: int = 0,
        num_workers: int = 0,
        epoch_end: EpochEnd = "drop",
        shuffle: bool = True,
    ) -> None:
        super().__init__(num_workers=num_workers, epoch_end=epoch_end, shuffle=shuffle)
        if kind not in ("tokens", "features"):
            raise ConfigError(f"data.kind={kind} must be tokens or features.")
        sizes = {
            "train_samples": train_samples,
            "vocab_size": vocab_size,
            "seq_len": seq_len,
            "in_features": in_features,
            "classes": classes,
        }
        for key, value in sizes.items():
            if value < 1:
                raise ConfigError(f"data.{key}={value} must be at least 1.")
        if val_samples < 0:
            raise ConfigError(f"data.val_samples={val_samples} must not be negative.")
        if not 0.0 <= masked_fraction <= 0.5:
            raise ConfigError(f"data.masked_fraction={masked_fraction} must lie in [0, 0.5].")
        self.kind = kind
        self.train_samples = train_samples
        self.val_samples = val_samples
        self.vocab_size = vocab_size
        self.seq_len = seq_len
        self.in_features = in_features
        self.classes = classes
        self.masked_fraction = masked_fraction
        self.seed = seed

    def train_set(self) -> TensorSamples:
        inputs, targets = self._all.inputs, self._all.targets
        return TensorSamples(inputs[: self.train_samples], targets[: self.train_samples])

    def val_set(self) -> TensorSamples | None:
        if not self.val_samples:
            return None
        inputs, targets = self._all.inputs, self._all.targets
        return TensorSamples(inputs[self.train_samples :], targets[self.train_samples :])

    def example(self) -> Pair:
        if self.kind == "tokens":
            return token_pair(self.seq_len)
        features = torch.empty(self.in_features, device="meta")
        return features, torch.empty((), dtype=torch.int64, device="meta")

    def record(self) -> dict[str, Any]:
        everything = (self._all.inputs, self._all.targets)
        return {
            "fingerprint": fingerprint(*(part.numpy().tobytes() for part in everything)),
            "train_samples": self.train_samples,
            "val_samples": self.val_samples,
            "baselines": self.baselines(),
        }

    @cached_property
    def _all(self) -> TensorSamples:
        generator = torch.Generator().manual_seed(self.seed)
        make = {"tokens": self._tokens, "features": self._features}[self.kind]
        return make(self.train_samples + self.val_samples, generator)

    def _tokens(self, samples: int, generator: torch.Generator) -> TensorSamples:
        steps = torch.randint(1, 5, (samples, self.seq_len + 1), generator=generator)
        steps[:, 0] = torch.randint(self.vocab_size, (samples,), generator=generator)
        tokens = steps.cumsum(1) % self.vocab_size
        targets = tokens[:, 1:].clone()
        longest = int(2 * self.masked_fraction * self.seq_len)
        masked = torch.randint(longest + 1, (samples, 1), generator=generator)
        targets[torch.arange(self.seq_len) >= self.seq_len - masked] = IGNORE
        return TensorSamples(tokens[:, :-1].clone(), targets)

    def _features(self, samples: int, generator: torch.Generator) -> TensorSamples:
        inputs = torch.randn(samples, self.in_features, generator=generator)
        planes = torch.randn(self.in_features, self.classes, generator=generator)
        targets = (inputs @ planes).argmax(1)
        targets[torch.rand(samples, generator=generator) < self.masked_fraction] = IGNORE
        return TensorSamples(inputs, targets)
