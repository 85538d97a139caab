"""A checkpoint as a resumed rank reads it: complete, or refused by name."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from torch.utils.data import IterableDataset

from components.checkpoint.folders import CONFIG
from components.checkpoint.manifest import Manifest, read_manifest
from components.checkpoint.snapshot import TRAINING, Contents, contents, load_plain
from components.data.base import Samples
from components.data.loader import same_place
from components.errors import ConfigError
from components.parallel.state import Layout, LossScaleState, Scalar
from train.config_hash import lasting

log = logging.getLogger(__name__)

SECTIONS = {
    "loop": {"step", "scales", "evaluations", "evaluated", "higher_is_better", "gate"},
    "meter": {
        "samples",
        "told",
        "updates",
        "skipped",
        "measured",
        "first",
        "tokens",
        "window",
    },
    "summary": {"last", "lowest", "highest"},
    "scheduler": {"updates", "lr"},
    "loss_scale": None,
    "best": None,
    "optimizer": None,
    "optimizer_entries": None,
}
"""What training.pt holds, and the entries of each section."""

OWN = {"random": {"python", "numpy", "torch"}, "buffers": None}
"""The same for each rank's file."""

SCHEDULE = ("scheduler", "optimizer", "steps")
"""The root keys that a learning rate depends on."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint to go on from.

    Attributes:
        checkpoint: its folder.
        allowed: root keys that may differ from the run that was saved.
    """

    checkpoint: Path
    allowed: tuple[str, ...] = ()

    @cached_property
    def manifest(self) -> Manifest:
        return read_manifest(self.checkpoint)

    @cached_property
    def training(self) -> dict[str, Any]:
        """What is the same on all ranks.

        Raises:
            ConfigError: naming the first entry that is missing.
        """
        content = load_plain(self.checkpoint / TRAINING)
        return _complete(content, SECTIONS, self.checkpoint / TRAINING)

    @cached_property
    def contents(self) -> Contents:
        """Its tensors by name and layout."""
        return contents(self.checkpoint)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The config of the attempt that wrote it."""
        loaded = OmegaConf.load(self.checkpoint / CONFIG)
        assert isinstance(loaded, DictConfig)
        return lasting(loaded)

    def loss_scale(self) -> LossScaleState:
        """Where the loss scale stood."""
        return LossScaleState(*self.training["loss_scale"])

    def optimizer_layout(
        self,
    ) -> tuple[dict[str, dict[str, Layout]], dict[str, dict[str, Scalar]]]:
        """The optimizer's tensors and scalars, by parameter and entry.

        Raises:
            ConfigError: naming an entry that was saved and is not there.
        """
        tensors, scalars = self.contents.optimizer, self.training["optimizer"]
        for name, entries in self.training["optimizer_entries"].items():
            there = {*tensors.get(name, {}), *scalars.get(name, {})}
            for entry in entries:
                if entry not in there:
                    raise ConfigError(
                        f"resume={self.checkpoint}: the optimizer's entry {entry} of {name} is "
                        "missing. A run is resumed from a whole checkpoint only; its weights alone "
                        f"can start a new run by init_from={self.checkpoint}."
                    )
        return tensors, scalars

    def of_rank(self, rank: int, world_size: int) -> dict[str, Any] | None:
        """A rank's own part; None when another number of ranks wrote the checkpoint.

        Raises:
            ConfigError: when it is there and lacks something.
        """
        if world_size != self.manifest.world_size:
            return None
        path = self.checkpoint / f"rank-{rank}.pt"
        return _complete(load_plain(path), OWN, path)

    def same_schedule(self, config: DictConfig) -> bool:
        """Whether a learning rate depends on the same settings as when the run was saved."""
        now = lasting(config)
        return all(now.get(key) == self.config.get(key) for key in SCHEDULE)

    def first_step(self, config: DictConfig, train_set: Samples) -> int:
        """The step at which the data go on; other data that were allowed begin anew."""
        if "data" in self.allowed and self.config.get("data") != lasting(config).get("data"):
            return 0
        if isinstance(train_set, IterableDataset):
            self._warn_of_other_shares(config, train_set)
        return same_place(
            train_set,
            self.manifest.step,
            self.config["global_batch_size"],
            config.global_batch_size,
            config.data.get("epoch_end", "drop"),
        )

    def _warn_of_other_shares(
        self, config: DictConfig, train_set: IterableDataset[tuple[Tensor, Tensor]]
    ) -> None:
        """Ranks and workers read shares of an iterable, and which samples those hold may change.

        Element i going to rank i modulo their number, a step takes the same elements of the
        stream over any number of ranks. Workers, and a data set's own split, cut otherwise.
        """
        before, now = self.config.get("data", {}), lasting(config)["data"]
        workers = (before.get("num_workers", 0), now.get("num_workers", 0))
        world_size = config.cluster.nproc_per_node * config.cluster.nnodes
        cut = any(workers) or hasattr(train_set, "split")
        if workers[0] != workers[1] or (cut and world_size != self.manifest.world_size):
            log.warning(
                "iterable data are read again up to step %d, now by %d ranks with %d workers each: "
                "some samples of this epoch may come again, and others not at all",
                self.manifest.step,
                world_size,
                workers[1],
            )

    def refuse_other_data(self, fingerprint: str | None) -> None:
        """Refuse a data set that has changed under the same settings.

        Raises:
            ConfigError: with both fingerprints.
        """
        if "data" in self.allowed or fingerprint == self.manifest.data:
            return
        raise ConfigError(
            f"resume={self.checkpoint}: the data differ from those of the run so far (fingerprint "
            f"{fingerprint}, and it was {self.manifest.data}), so the curve would not go on. Bring "
            "the old data back, allow it by resume_allow=[data], or start a new run by init_from."
        )


def saved_in(config: DictConfig) -> Saved | None:
    """The checkpoint that a run's config says to go on from; None for a new run."""
    if config.resume is None:
        return None
    return Saved(Path(config.resume), tuple(config.resume_allow))


def _complete(
    content: dict[str, Any], sections: dict[str, set[str] | None], path: Path
) -> dict[str, Any]:
    for section, entries in sections.items():
        missing = [section] if section not in content else []
        missing += [
            f"{section}.{entry}"
            for entry in sorted(entries or ())
            if section in content and entry not in content[section]
        ]
        if missing:
            raise ConfigError(
                f"resume={path.parent}: {path.name} lacks {missing[0]}. A run is resumed from a "
                "whole checkpoint only; take an earlier one, or start a new run from the weights "
                f"by init_from={path.parent}."
            )
    return content
