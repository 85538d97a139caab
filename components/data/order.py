"""The global order of samples: a pure function of (seed, epoch, position)."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from components.data.base import EpochEnd
from components.data.streams import ORDER
from components.errors import ConfigError

log = logging.getLogger(__name__)


class GlobalOrder:
    """Which samples each step takes, whatever the ranks and micro-batches they are cut into.

    Steps are counted from 0 over the whole run. An epoch is one permutation of
    all samples, cut into windows of the global batch; `epoch_end` says what
    becomes of the rest.

    Attributes:
        steps_per_epoch: windows in an epoch, a partial one included.
        unused: samples that each epoch leaves out (`drop`), others in each epoch when shuffled.

    Raises:
        ConfigError: when an epoch would have no step.
    """

    def __init__(
        self,
        num_samples: int,
        global_batch_size: int,
        *,
        seed: int,
        shuffle: bool = True,
        epoch_end: EpochEnd = "drop",
    ) -> None:
        if num_samples < 1:
            raise ConfigError("data: the training set has no samples.")
        self.num_samples = num_samples
        self.global_batch_size = global_batch_size
        whole, rest = divmod(num_samples, global_batch_size)
        self.steps_per_epoch = whole + (epoch_end == "partial" and rest > 0)
        self.unused = rest if epoch_end == "drop" else 0
        if not self.steps_per_epoch:
            raise ConfigError(
                f"data: the training set's {num_samples} samples are fewer than "
                f"global_batch_size={global_batch_size}, so data.epoch_end=drop leaves no step. "
                f"Take global_batch_size={num_samples} or less, or data.epoch_end=partial."
            )
        self._seed = seed
        self._shuffle = shuffle
        self._epoch = -1
        self._ids: NDArray[np.int64] = np.arange(num_samples)

    def window(self, step: int) -> tuple[int, NDArray[np.int64]]:
        """The epoch of `step`, and its samples in order: (global_batch_size,) ids or fewer."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if self._shuffle and epoch != self._epoch:
            generator = np.random.default_rng(np.random.SeedSequence([self._seed, ORDER, epoch]))
            self._ids = generator.permutation(self.num_samples)
            self._epoch = epoch
        start = within * self.global_batch_size
        return epoch, self._ids[start : start + self.global_batch_size]

    def place(self, step: int) -> tuple[int, int]:
        """The epoch of `step`, and the samples of it that came before."""
        epoch, within = divmod(step, self.steps_per_epoch)
        return epoch, within * self.global_batch_size

    def step_at(self, epoch: int, before: int) -> int:
        """The first step of an epoch that begins `before` samples into it or later."""
        within = min(-(-before // self.global_batch_size), self.steps_per_epoch)
        return epoch * self.steps_per_epoch + within

    def tell_unused(self) -> None:
        """Say what each epoch leaves out."""
        if self.unused:
            log.info(
                "%d of %d samples unused per epoch: no whole global batch of %d is left "
                "(data.epoch_end=drop)",
                self.unused,
                self.num_samples,
                self.global_batch_size,
            )

    def samples(self, steps: int) -> int:
        """Samples consumed by the first `steps` steps of a run, over all ranks."""
        epochs, within = divmod(steps, self.steps_per_epoch)
        per_epoch = self.num_samples - self.unused
        return epochs * per_epoch + within * self.global_batch_size
