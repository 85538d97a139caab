"""Train on one rank: build every component from the config, fit, record."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from components.cluster.cluster import Cluster
from components.cluster.control import Control
from components.cluster.preemption import Notice
from components.cluster.ranks import Ranks, all_agree, leave
from components.data.base import Data
from components.data.loader import eval_batches, train_batches
from components.logger.stream import ConsoleStream
from components.optimizer import build_optimizer
from train.blocks import wrap_blocks
from train.health.replicas import comparison
from train.keeper import Keeper
from train.kinds import build_gate, build_objective
from train.loop import Loop, Progress
from train.record import Recorder
from train.rehearsal import refuse_deaf_best, refuse_deaf_patience, rehearse
from train.saved import saved_in
from train.seeds import seed_init, seed_rank
from train.start_weights import start_weights
from train.status import refuse_if_over
from train.targets import build
from train.training_state import TrainingState, tied_names


def train(
    config: DictConfig,
    folder: Path,
    cluster: Cluster,
    ranks: Ranks,
    data: Data,
    console: ConsoleStream,
    progress: Progress,
    attempt: int,
    notice: Notice,
) -> None:
    """Train on one rank, from seeding to the final weights.

    Args:
        config: the run folder's, resolved, with every derived number filled in.
        folder: the run's.
        cluster, ranks: this process's place; the process group exists.
        data: prepared.
        console: what the user looks at.
        progress: counts this rank's steps for whoever has to tell of its end.
        attempt: which start of this run it is, from 1; on rank 0, the others need not know.
        notice: whether this process has been warned that it is to end soon.
    """
    seed_init(config.seed)
    saved = saved_in(config)
    precision = build(config.precision, "precision")
    parallel = build(config.parallel, "parallel")
    checkpoint = build(config.checkpoint, "checkpoint")
    model = build(config.model, "model")
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    tied = tied_names(model)
    objective = build_objective(config, model)
    train_set, val_set = data.train_set(), data.val_set()
    rehearse(model, objective, train_set, config)
    refuse_deaf_patience(config, val_set)
    refuse_deaf_best(checkpoint, config, val_set)
    start_weights(config, saved.checkpoint if saved else None, model)
    wrap_blocks(model, config)
    recorder = Recorder(config, folder, cluster, ranks, data, model, precision, parallel, console)

    gate = parallel.gate = build_gate(config, ranks)
    parallel.before_update = partial(progress.enter, "optimizer")
    make_optimizer = partial(build_optimizer, build(config.optimizer, "optimizer"))
    parallel.prepare(model, objective, make_optimizer, precision, ranks, config.clip_norm)
    scheduler = build(config.scheduler, "scheduler")(parallel.optimizer)

    seed_rank(config.seed, ranks.rank)
    cut = {
        "micro_batch_size": config.micro_batch_size,
        "dp_rank": parallel.dp_rank,
        "dp_size": parallel.dp_size,
        "num_workers": data.num_workers,
        "agree": partial(all_agree, ranks),
    }
    batches = train_batches(
        train_set,
        seed=config.seed,
        shuffle=data.shuffle,
        epoch_end=data.epoch_end,
        accumulation=config.accumulation,
        start_step=saved.first_step(config, train_set) if saved else 0,
        **cut,
    )
    loop = Loop(
        parallel=parallel,
        scheduler=scheduler,
        batches=batches,
        validation=None if val_set is None else partial(eval_batches, val_set, **cut),
        derive=data.derive,
        meter=recorder.meter(),
        report=recorder.report,
        steps=config.steps,
        log_every=config.log_every,
        eval_every=config.eval_every,
        max_skips=precision.max_consecutive_skips if precision.scaled or gate.skips else None,
        patience=config.patience,
        on_update=recorder.note_dtypes,
        take=recorder.memory.step,
        main=ranks.main,
        progress=progress,
        gate=gate,
        compare_replicas=comparison(parallel, ranks, progress, config.drift_every),
        drift_every=config.drift_every,
        lower_is_better=getattr(objective, "lower_is_better", ()),
    )
    state = TrainingState(
        config, attempt, ranks, parallel, precision, scheduler, loop, recorder, tied
    )
    control = Control(ranks, cluster.timeout_s)
    may_commit = partial(refuse_if_over, folder, attempt)
    saver = checkpoint.saver(folder, control, cluster.timeout_s, may_commit)
    keeper = Keeper(saver, control, notice, state)
    # However training ends, its data workers go first: a sink's service that starts beside them
    # may wait for what they have inherited of it.
    with recorder.recording(saved), closing(batches):
        if saved:
            keeper.go_on_from(saved)
        keeper.run()
        loop.check_trained()
        batches.close()
        keeper.save_last()
        checkpoint.finish(folder, parallel, expected)
        progress.enter("end")
        recorder.complete(loop, saver.waited)
    parallel.close()
    leave()
