"""scikit-learn's digits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from components.data import digits
from components.data.digits import Digits
from components.errors import ConfigError


def test_missing_library_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'shardlab\[digits\]'"):
        Digits()


def test_misstated_facts_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.classes=11: digits have 10"):
        Digits(classes=11)


def test_the_table_is_what_the_library_loads() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    data = Digits()
    inputs = torch.cat([data.val_set().inputs, data.train_set().inputs])
    targets = torch.cat([data.val_set().targets, data.train_set().targets])
    order = np.random.default_rng(0).permutation(1797)
    assert torch.equal(inputs * 16, torch.from_numpy(pixels[order]).float())
    assert torch.equal(targets, torch.from_numpy(labels[order]))


def test_flat_and_image_are_the_same_digits_in_a_fixed_split() -> None:
    pytest.importorskip("sklearn")
    flat, image = Digits(), Digits(image=True)
    assert (len(flat.train_set()), len(flat.val_set())) == (1500, 297)
    rows = list(range(1500))
    inputs, targets = flat.train_set().get_batch(rows)
    images, same = image.train_set().get_batch(rows)
    assert inputs.shape == (1500, 64)
    assert images.shape == (1500, 1, 8, 8)
    assert torch.equal(images.reshape(1500, 64), inputs)
    assert torch.equal(targets, same)
    assert (inputs.dtype, targets.dtype) == (torch.float32, torch.int64)
    assert (inputs.min(), inputs.max()) == (0, 1)
    assert sorted(targets.unique().tolist()) == list(range(10))


def test_no_digit_is_lost_or_in_both_parts() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    data = Digits()
    both = torch.cat([data.train_set().inputs, data.val_set().inputs])
    pixels = torch.from_numpy(datasets.load_digits().data / 16).float()
    assert sorted(map(tuple, both.tolist())) == sorted(map(tuple, pixels.tolist()))


def test_the_record_repeats() -> None:
    pytest.importorskip("sklearn")
    record = Digits().record()
    assert record == Digits().record()
    assert record["fingerprint"].startswith("sha256:")
    ((guess, _),) = Counter(Digits().train_set().targets.tolist()).most_common(1)
    right = Digits().val_set().targets.tolist().count(guess)
    assert record["baselines"]["majority_accuracy"] == pytest.approx(right / 297)
