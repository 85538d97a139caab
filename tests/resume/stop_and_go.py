"""Train in process for some steps, save, and go on: under the same strategy or another."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from components.checkpoint.manifest import Manifest
from components.checkpoint.saver import Saver
from components.cluster.control import Control
from components.cluster.preemption import Notice
from components.cluster.ranks import Ranks, all_agree, sum_over_ranks
from components.data.loader import eval_batches, train_batches
from components.objective import objective_of
from components.optimizer import build_optimizer
from components.scheduler import warmup_cosine
from tests.fit import Task
from tests.gang import STRATEGIES
from train.keeper import Keeper
from train.loop import Loop, Progress
from train.meter import Meter, Scale
from train.saved import Saved
from train.seeds import seed_init, seed_rank
from train.start_weights import start_weights
from train.summary import Summary
from train.training_state import TrainingState, tied_names


@dataclass
class Told:
    """What one rank tells of a training.

    Attributes:
        records: as they would stand in metrics.jsonl, of this attempt alone.
        weights: by plain name; empty but on rank 0.
        checkpoint: where the training was saved at its end.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    checkpoint: Path | None = None

    def by_step(self, name: str) -> dict[int, float]:
        """The values of one metric by step."""
        return {record["step"]: record[name] for record in self.records if name in record}


def train(
    ranks: Ranks,
    word: str,
    task: Task,
    folder: Path,
    *,
    stop: int,
    resume: Path | None = None,
) -> Told:
    """Train on this rank up to step `stop` of the task's steps, and save there.

    Args:
        word: the strategy's, as on the command line.
        folder: takes the checkpoints.
        resume: a checkpoint to go on from.
    """
    told = Told()
    saved = None if resume is None else Saved(resume)
    config = _config(task, word, ranks.world_size)
    seed_init(0)
    strategy = STRATEGIES[word]()
    model, data = task.model(), task.data()
    tied = tied_names(model)
    start_weights(config, resume, model)
    strategy.gate = gate = task.gate()
    make_optimizer = partial(build_optimizer, task.optimizer)
    strategy.prepare(
        model, objective_of(model), make_optimizer, task.precision, ranks, task.clip_norm
    )
    factor = warmup_cosine(total_steps=task.steps, warmup_steps=3, final_ratio=0.1)
    scheduler = LambdaLR(strategy.optimizer, factor)
    seed_rank(0, ranks.rank)
    accumulation = max(task.accumulation, ranks.world_size if word == "pipeline" else 1)
    micro, left = divmod(task.global_batch, strategy.dp_size * accumulation)
    assert not left, "the global batch must divide into micro-batches"
    cut: dict[str, Any] = {
        "micro_batch_size": micro,
        "dp_rank": strategy.dp_rank,
        "dp_size": strategy.dp_size,
        "num_workers": data.num_workers,
        "agree": partial(all_agree, ranks),
    }
    train_set, val_set = data.train_set(), data.val_set()
    batches = train_batches(
        train_set,
        seed=0,
        shuffle=data.shuffle,
        epoch_end=data.epoch_end,
        accumulation=accumulation,
        start_step=saved.first_step(config, train_set) if saved else 0,
        **cut,
    )
    copies = ranks.world_size // strategy.dp_size
    loop = Loop(
        parallel=strategy,
        scheduler=scheduler,
        batches=batches,
        validation=None if val_set is None else partial(eval_batches, val_set, **cut),
        derive=data.derive,
        meter=Meter(Scale(), lambda n: sum_over_ranks(ranks, n) // copies),
        report=told.records.append,
        steps=task.steps,
        log_every=task.log_every,
        eval_every=task.eval_every,
        max_skips=task.max_skips if task.precision.scaled or gate.skips else None,
        gate=gate,
        patience=None,
        on_update=lambda: None,
        progress=Progress(),
    )
    recorder: Any = SimpleNamespace(
        summary=Summary(), records=0, fingerprint="none", dtypes={"param": "float32"}
    )
    state = TrainingState(
        config, 1, ranks, strategy, task.precision, scheduler, loop, recorder, tied
    )
    control = Control(ranks, 60.0)
    keeper = _Until(_saver(folder, control), control, Notice(), state)
    keeper.stop_at = stop
    if saved:
        keeper.go_on_from(saved)
    with suppress(_Stopped):
        keeper.run()
    keeper.save_last()
    batches.close()
    told.checkpoint = folder / "checkpoints" / f"step-{loop.step:06d}"
    told.weights = strategy.full_weights()
    strategy.close()
    return told


class _Stopped(Exception):
    pass


class _Until(Keeper):
    """Ends a training at the boundary of one step."""

    stop_at: int

    def boundary(self) -> None:
        super().boundary()
        if self.state.loop.step == self.stop_at:
            raise _Stopped


def _saver(folder: Path, control: Control) -> Saver:
    return Saver(
        folder,
        control,
        every_steps=None,
        every_minutes=None,
        keep_last=100,
        keep_best=0,
        best_metric="val/loss",
        lowest=True,
        background=False,
        may_commit=lambda: None,
    )


def _config(task: Task, word: str, world_size: int) -> DictConfig:
    return OmegaConf.create(
        {
            "seed": 0,
            "steps": task.steps,
            "global_batch_size": task.global_batch,
            "parallel": {"name": word},
            "scheduler": {"_target_": "warmup_cosine"},
            "optimizer": {"_target_": "optimizer"},
            "data": {"epoch_end": task.data().epoch_end, "num_workers": task.data().num_workers},
            "cluster": {"nproc_per_node": world_size, "nnodes": 1},
            "init_from": None,
            "resume": None,
            "resume_allow": [],
        }
    )


def blank_manifest(step: int, parallel: str, world_size: int = 1) -> Manifest:
    """A manifest of which only these matter."""
    return Manifest(
        step=step,
        samples=0,
        records=0,
        parallel=parallel,
        precision="fp32",
        world_size=world_size,
        dtypes={},
        attempt=1,
        time=0.0,
        config_hash="",
        versions={},
        tied={},
        metrics={},
        data=None,
    )


def same_losses(ours: dict[int, float], theirs: dict[int, float], relative: float) -> None:
    """Fail unless both have the same steps, with losses that close."""
    assert ours.keys() == theirs.keys()
    for step, loss in ours.items():
        assert abs(loss - theirs[step]) <= relative * abs(theirs[step]), (step, loss, theirs[step])


def equal_weights(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """Fail unless all weights are the same to the bit."""
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name]), name
