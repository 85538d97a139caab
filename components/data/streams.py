"""Random streams of the data layer, each a function of the run's seed and of what it is for.

The rule: a draw made while fetching a sample depends on (seed, epoch, position
in the epoch) and on nothing else. So ranks, workers and epochs augment
differently, a run repeats exactly, a resumed run goes on exactly, and neither
the number of ranks nor of workers changes what is drawn. For iterable data,
where positions are unknown, it depends on (seed, epoch, rank, worker).

Draws made in the training process leave its own random state, which dropout
uses, untouched. Only the CPU's generators are seeded: data sets have no
business on an accelerator.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

ORDER, SAMPLE, SHARE, WORKER = range(1, 5)
"""The purposes: order of samples, draws per sample, per share of an iterable, worker start."""


def derive_seed(seed: int, purpose: int, *keys: int) -> int:
    """A 63-bit seed for one purpose and its keys, by NumPy's `SeedSequence`."""
    sequence = np.random.SeedSequence([seed, purpose, *keys])
    return int(sequence.generate_state(1, np.uint64)[0]) >> 1


def mix(base: int, position: int) -> int:
    """A 63-bit seed for each position: the output function of SplitMix64.

    Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
    Bijective on 64 bits, and a microsecond where a `SeedSequence` takes ten.
    """
    mask = (1 << 64) - 1
    z = (base + position * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) >> 1


def seed_libraries(seed: int) -> None:
    """Seed `torch` (CPU), `numpy.random` and `random`."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    random.seed(seed)


@contextmanager
def set_aside() -> Iterator[None]:
    """Restore the three libraries' random states on leaving."""
    states = _capture()
    try:
        yield
    finally:
        _restore(states)


class OwnState:
    """A random state of its own, in force inside `with`, resumed where the last `with` ended."""

    def __init__(self, seed: int) -> None:
        with set_aside():
            seed_libraries(seed)
            self._inside = _capture()

    def __enter__(self) -> None:
        self._outside = _capture()
        _restore(self._inside)

    def __exit__(self, *exception: object) -> None:
        self._inside = _capture()
        _restore(self._outside)


_States = tuple[torch.Tensor, dict, tuple]


def _capture() -> _States:
    # legacy=False: a dictionary, which also holds the second half of a pair of normal draws.
    return torch.get_rng_state(), np.random.get_state(legacy=False), random.getstate()


def _restore(states: _States) -> None:
    torch.set_rng_state(states[0])
    np.random.set_state(states[1])
    random.setstate(states[2])
