"""scikit-learn's digits: 1797 handwritten digits of 8 x 8 pixels, in ten classes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from components.data.base import Data, EpochEnd, Pair
from components.data.tensor_samples import TensorSamples
from components.data.text import fingerprint
from components.errors import ConfigError

CLASSES, SIDE, VAL_SAMPLES = 10, 8, 297


class Digits(Data):
    """1500 digits for training and 297 for validation, always the same ones; pixels in [0, 1].

    Inputs are float32, (64,) or, with `image`, (1, 8, 8); targets are class numbers.

    Args:
        image: deliver images instead of flat vectors.
        in_features, channels, image_size, classes: facts that models read off
            the configuration.

    Raises:
        ConfigError: when scikit-learn is missing, or a fact is misstated.
    """

    def __init__(
        self,
        *,
        image: bool = False,
        in_features: int = SIDE * SIDE,
        channels: int = 1,
        image_size: int = SIDE,
        classes: int = CLASSES,
        num_workers: int = 0,
        epoch_end: EpochEnd = "drop",
        shuffle: bool = True,
    ) -> None:
        super().__init__(num_workers=num_workers, epoch_end=epoch_end, shuffle=shuffle)
        facts = {"in_features": 64, "channels": 1, "image_size": SIDE, "classes": CLASSES}
        said = (in_features, channels, image_size, classes)
        for (key, fact), value in zip(facts.items(), said, strict=True):
            if value != fact:
                raise ConfigError(f"data.{key}={value}: digits have {fact}; leave it as it is.")
        if find_spec("sklearn") is None:
            raise ConfigError(
                "data=digits needs scikit-learn, which is not installed: "
                "pip install 'shardlab[digits]'"
            )
        self.image = image
        self._loaded: tuple[Tensor, Tensor] | None = None

    def train_set(self) -> TensorSamples:
        images, labels = self._all()
        return TensorSamples(images[VAL_SAMPLES:], labels[VAL_SAMPLES:])

    def val_set(self) -> TensorSamples:
        images, labels = self._all()
        return TensorSamples(images[:VAL_SAMPLES], labels[:VAL_SAMPLES])

    def example(self) -> Pair:
        shape = (1, SIDE, SIDE) if self.image else (SIDE * SIDE,)
        label = torch.empty((), dtype=torch.int64, device="meta")
        return torch.empty(shape, device="meta"), label

    def record(self) -> dict[str, Any]:
        images, labels = self._all()
        return {
            "fingerprint": fingerprint(images.numpy().tobytes(), labels.numpy().tobytes()),
            "train_samples": len(images) - VAL_SAMPLES,
            "val_samples": VAL_SAMPLES,
            "baselines": self.baselines(),
        }

    def baselines(self) -> dict[str, float]:
        """The accuracy of always guessing the most frequent class of training."""
        _, labels = self._all()
        guess = labels[VAL_SAMPLES:].bincount().argmax()
        return {"majority_accuracy": (labels[:VAL_SAMPLES] == guess).float().mean().item()}

    def _all(self) -> tuple[Tensor, Tensor]:
        if self._loaded is None:
            table = np.loadtxt(_file(), delimiter=",")
            pixels, labels = table[:, :-1], table[:, -1]
            order = np.random.default_rng(0).permutation(len(pixels))
            shape = (-1, 1, SIDE, SIDE) if self.image else (-1, SIDE * SIDE)
            images = torch.from_numpy((pixels[order] / 16).astype(np.float32)).reshape(shape)
            self._loaded = images, torch.from_numpy(labels[order].astype(np.int64))
        return self._loaded


def _file() -> Path:
    """The table that scikit-learn ships: 64 pixels and the class in a row.

    Read without importing the library, which costs each rank more time than a short run.
    """
    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
