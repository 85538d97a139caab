"""When a run is saved, and how many checkpoints it keeps."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from components.errors import ConfigError
from components.parallel.base import Parallel

if TYPE_CHECKING:
    from components.checkpoint.saver import Saver
    from components.cluster.control import Control

# What saves is imported where it is used: the process that only checks the options needs none.


class Checkpoint:
    """What a run keeps of itself.

    Args:
        every_steps: optimizer steps between two checkpoints; None leaves it to the clock.
        every_minutes: minutes between two checkpoints; None leaves it to the steps.
        keep_last: the newest checkpoints that are kept; 0 writes none at all.
        keep_best: further ones that are kept for `best_metric`. One that gets among the best is
            saved right after its evaluation.
        best_metric: an evaluation's, as in `val/loss`.
        best_mode: whether the lowest or the highest is the best.
        background: copy the state to CPU memory and write it beside training; the copy takes as
            much memory as the rank's share of the checkpoint.
        save_weights: leave `weights.safetensors` at the end.
    """

    def __init__(
        self,
        every_steps: int | None = 200,
        every_minutes: float | None = 10.0,
        keep_last: int = 2,
        keep_best: int = 0,
        best_metric: str = "val/loss",
        best_mode: Literal["min", "max"] = "min",
        background: bool = False,
        save_weights: bool = True,
    ) -> None:
        for key, every in (("every_steps", every_steps), ("every_minutes", every_minutes)):
            if every is not None and not 0 < every < math.inf:
                raise ConfigError(
                    f"checkpoint.{key}={every} must be above 0; null does not save by it."
                )
        for key, kept in (("keep_last", keep_last), ("keep_best", keep_best)):
            if kept < 0:
                raise ConfigError(f"checkpoint.{key}={kept} must be 0 or more checkpoints.")
        if keep_best and not keep_last:
            raise ConfigError(
                f"checkpoint.keep_best={keep_best} with checkpoint.keep_last=0, which writes none: "
                "a run is resumed from its newest checkpoint. Take checkpoint.keep_last=1."
            )
        if not best_metric.startswith("val/"):
            raise ConfigError(
                f"checkpoint.best_metric={best_metric} is no metric of an evaluation: take one "
                "that begins with val/, as val/loss."
            )
        self.every_steps = every_steps
        self.every_minutes = every_minutes
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.best_metric = best_metric
        self.best_mode = best_mode
        self.background = background
        self.save_weights = save_weights

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are written at all."""
        return self.keep_last > 0

    def saver(
        self, folder: Path, control: Control, timeout_s: float, may_commit: Callable[[], None]
    ) -> Saver:
        """What saves a run into its folder. Call on all ranks.

        Args:
            may_commit: called on the main rank before a checkpoint gets its name; may raise.

        Raises:
            ConfigError: when some rank does not see the folder that the main rank writes into.
        """
        from components.checkpoint.saver import Saver
        from components.cluster.control import Control

        if self.enabled:
            refuse_unshared(folder, control)
        own = Control(control.ranks, timeout_s) if self.background else control
        return Saver(
            folder,
            own,
            every_steps=self.every_steps if self.enabled else None,
            every_minutes=self.every_minutes if self.enabled else None,
            keep_last=self.keep_last,
            keep_best=self.keep_best,
            best_metric=self.best_metric,
            lowest=self.best_mode == "min",
            background=self.background,
            may_commit=may_commit,
        )

    def finish(self, folder: Path, parallel: Parallel, expected: dict[str, torch.Size]) -> None:
        """Save the weights of a finished run. Call on all ranks: sharded ones are gathered."""
        from components.checkpoint.weights import save_weights

        if not self.save_weights:
            return
        weights = parallel.full_weights()
        if weights:
            save_weights(folder, weights, expected)


def refuse_unshared(folder: Path, control: Control) -> None:
    """Refuse to save a run whose nodes have folders of the same name, each its own.

    Call on all ranks.

    Raises:
        ConfigError: naming the ranks that do not see what the main rank writes.
    """
    probe = None
    if control.ranks.main:
        # A name that nobody has looked for: file servers remember what was not there.
        probe = f".seen-by-all-{os.getpid()}-{os.urandom(4).hex()}"
        (folder / probe).touch()
    probe = control.tell(probe)
    blind = [
        rank for rank, sees in enumerate(control.gather((folder / probe).exists())) if not sees
    ]
    blind = control.tell(blind)
    if control.ranks.main:
        (folder / probe).unlink()
    if blind:
        ranks = ", ".join(map(str, blind[:8])) + (", ..." if len(blind) > 8 else "")
        raise ConfigError(
            f"checkpoint: hydra.run.dir={folder} on the node of rank 0 is not the folder that "
            f"rank{'s' if len(blind) > 1 else ''} {ranks} see under this name, and a checkpoint "
            "is written by all ranks into one. Set hydra.run.dir to a place that all nodes share, "
            "or take checkpoint=weights, which saves the final weights alone."
        )
