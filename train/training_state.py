"""All that makes a training go on where it stopped: gathered for a checkpoint, and put back."""

from __future__ import annotations

import logging
import time
import warnings

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from components.checkpoint import random_state
from components.checkpoint.manifest import Manifest
from components.checkpoint.snapshot import Snapshot, read_optimizer
from components.cluster.ranks import Ranks
from components.errors import ConfigError
from components.parallel.base import Parallel
from components.precision import Precision
from train.config_hash import config_hash
from train.loop import Loop
from train.provenance import versions
from train.record import Recorder
from train.saved import Saved
from train.seeds import seed_resumed

log = logging.getLogger(__name__)


def tied_names(model: nn.Module) -> dict[str, str]:
    """Further names of shared parameters, each with the name under which it is saved."""
    first: dict[nn.Parameter, str] = {}
    tied = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        if p in first:
            tied[name] = first[p]
        first.setdefault(p, name)
    return tied


class TrainingState:
    """One rank's view of a training, as a checkpoint holds it.

    Args:
        attempt: which start of the run this is, from 1.
        tied: as `tied_names` says of the plain model.
    """

    def __init__(
        self,
        config: DictConfig,
        attempt: int,
        ranks: Ranks,
        parallel: Parallel,
        precision: Precision,
        scheduler: LRScheduler,
        loop: Loop,
        recorder: Recorder,
        tied: dict[str, str],
    ) -> None:
        self.config = config
        self.attempt = attempt
        self.ranks = ranks
        self.parallel = parallel
        self.precision = precision
        self.scheduler = scheduler
        self.loop = loop
        self.recorder = recorder
        self.tied = tied

    @property
    def metrics(self) -> dict[str, float]:
        """Of the evaluation at the present step; empty without one."""
        step, metrics = self.loop.evaluated
        return metrics if step == self.loop.step else {}

    def snapshot(self, best: list[tuple[float, int]]) -> Snapshot:
        """This rank's part of a checkpoint. Call on all ranks.

        Args:
            best: the best checkpoints, this one among them if it is one.
        """
        weights = self.parallel.weights()
        optimizer = self.parallel.optimizer_state()
        scale = self.parallel.loss_scale_state()
        meter = self.loop.meter.state()
        training = {
            "loop": self.loop.state(),
            "meter": meter,
            "summary": self.recorder.summary.state(),
            "scheduler": {"updates": meter["updates"], "lr": self._lr()},
            "loss_scale": None if scale is None else [scale.scale, scale.good_steps],
            "best": best,
        }
        own_buffers = {
            name: buffer.detach().to("cpu", copy=True)
            for name, buffer in self.parallel.own_buffers().items()
            if not torch.equal(buffer, weights[name].boxes[0].elements)
        }
        return Snapshot(
            weights=weights,
            optimizer=optimizer.tensors,
            scalars=optimizer.scalars,
            training=training,
            own={"random": random_state.capture(self.ranks.device), "buffers": own_buffers},
            config=OmegaConf.to_yaml(self.config),
            manifest=self._manifest(meter["samples"]),
        )

    def _manifest(self, samples: int) -> Manifest:
        return Manifest(
            step=self.loop.step,
            samples=samples,
            records=self.recorder.records,
            parallel=self.parallel.name,
            precision=self.precision.name,
            world_size=self.ranks.world_size,
            dtypes=self.recorder.dtypes,
            attempt=self.attempt,
            time=time.time(),
            config_hash=config_hash(self.config),
            versions=versions(),
            tied=self.tied,
            metrics=self.metrics,
            data=self.recorder.fingerprint,
        )

    def _lr(self) -> float:
        return float(self.parallel.optimizer.param_groups[0]["lr"])

    def restore(self, saved: Saved) -> None:
        """Go on from a checkpoint, the weights of which the model has already.

        The random state comes back last. Call right before the loop runs.

        Raises:
            ConfigError: when the checkpoint lacks something, or does not fit this run.
        """
        training = saved.training
        self.loop.restore(training["loop"])
        self.loop.meter.restore(training["meter"])
        self.recorder.summary.restore(training["summary"])
        saved.refuse_other_data(self.recorder.fingerprint)
        self._restore_optimizer(saved)
        self._restore_scheduler(saved)
        if training["loss_scale"] is not None and self.precision.scaled:
            self.parallel.set_loss_scale(saved.loss_scale())
        own = saved.of_rank(self.ranks.rank, self.ranks.world_size)
        if saved.manifest.parallel == self.parallel.name and own is not None:
            live = self.parallel.own_buffers()
            for name, buffer in own["buffers"].items():
                live[name].copy_(buffer)
        if own is not None:
            random_state.restore(own["random"], self.ranks.device)
            return
        seed_resumed(self.config.seed, self.ranks.rank, self.loop.step)
        if self.ranks.main:
            log.warning(
                "the random states of %d ranks do not fit %d: dropout and the like go on with new "
                "draws, a function of seed, step and rank",
                saved.manifest.world_size,
                self.ranks.world_size,
            )

    def _restore_optimizer(self, saved: Saved) -> None:
        tensors, scalars = saved.optimizer_layout()
        self.parallel.make_optimizer_state(tensors, scalars)
        read_optimizer(saved.checkpoint, self.parallel.optimizer_state().tensors)

    def _restore_scheduler(self, saved: Saved) -> None:
        """Walk a new schedule to where the old one stood: the same numbers, or this config's."""
        before = saved.training["scheduler"]
        with warnings.catch_warnings():
            # Torch wonders at a schedule that moves before its optimizer does.
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
            for _ in range(before["updates"]):
                self.scheduler.step()
        if saved.same_schedule(self.config) and self._lr() != before["lr"]:
            raise ConfigError(
                f"scheduler._target_={self.config.scheduler._target_}: after {before['updates']} "
                f"updates it gives a learning rate of {self._lr()}, and gave {before['lr']} when "
                "the run was saved. A schedule has to be a function of the updates done to be "
                "resumed; take init_from for a new run from these weights."
            )
