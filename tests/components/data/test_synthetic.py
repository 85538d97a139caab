"""Made-up samples."""

from __future__ import annotations

import pytest
import torch

from components.data.synthetic import Synthetic
from components.errors import ConfigError
from components.objective import IGNORE


def test_tokens_step_by_one_to_four() -> None:
    data = Synthetic(train_samples=50, val_samples=10, vocab_size=11, seq_len=8)
    inputs, targets = data.train_set().inputs, data.train_set().targets
    assert inputs.shape == targets.shape == (50, 8)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert sorted(((targets - inputs) % 11).unique().tolist()) == [1, 2, 3, 4]
    val_set = data.val_set()
    assert val_set is not None
    assert len(val_set) == 10


def test_masked_targets_vary_between_samples() -> None:
    plain = Synthetic(train_samples=400, seq_len=20)
    masked = Synthetic(train_samples=400, seq_len=20, masked_fraction=0.25)
    targets = masked.train_set().targets
    counts = (targets == IGNORE).sum(1)
    # Uniform in 0 .. 10 of 20: a mean of 5, that is a quarter.
    assert (counts.min(), counts.max()) == (0, 10)
    assert counts.float().mean().item() == pytest.approx(5, abs=0.5)
    kept = targets != IGNORE
    assert torch.equal(targets[kept], plain.train_set().targets[kept])
    assert (kept[:, :-1] | ~kept[:, 1:]).all(), "only tails are masked"


def test_features_and_their_classes() -> None:
    data = Synthetic(kind="features", train_samples=300, in_features=5, classes=3)
    inputs, targets = data.train_set().get_batch(list(range(300)))
    assert (inputs.shape, inputs.dtype) == ((300, 5), torch.float32)
    assert sorted(targets.unique().tolist()) == [0, 1, 2]
    # The largest of linear functions: a linear fit to the classes' indicators finds most of them.
    indicators = torch.nn.functional.one_hot(targets, 3).float()
    fitted = inputs @ torch.linalg.lstsq(inputs, indicators).solution
    assert (fitted.argmax(1) == targets).float().mean() > 0.85


def test_masked_features() -> None:
    data = Synthetic(kind="features", train_samples=1000, masked_fraction=0.5)
    share = (data.train_set().targets == IGNORE).float().mean().item()
    assert share == pytest.approx(0.5, abs=0.05)


def test_a_seed_names_the_samples() -> None:
    record = Synthetic(seed=1).record()
    assert record == Synthetic(seed=1).record()
    assert record["fingerprint"] != Synthetic(seed=2).record()["fingerprint"]
    assert Synthetic(val_samples=0).val_set() is None


@pytest.mark.parametrize(
    "options",
    [{"masked_fraction": 0.6}, {"seq_len": 0}, {"val_samples": -1}, {"kind": "images"}],
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    key = next(iter(options))
    with pytest.raises(ConfigError, match=rf"data\.{key}="):
        Synthetic(**options)  # type: ignore[arg-type]
