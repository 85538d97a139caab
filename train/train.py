"""The one entry, from the command line to the record.

In the process that decides: compose every job, check it, start its ranks (`main`,
`run_job`). On each rank: build every component from the config, fit, record (`train`).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from components.cluster.joined import Joined, joined
from components.errors import ConfigError
from train import hydra_api, sweep
from train.command_line import compose_jobs, parse
from train.targets import build, check_jobs

if TYPE_CHECKING:
    from components.cluster.cluster import Cluster
    from components.cluster.ranks import Ranks
    from components.data.base import Data
    from components.logger.stream import ConsoleStream
    from train.loop import Progress


def main() -> None:
    """`python -m train`. Exits with 0 done, 1 failed, 2 refused, 130 interrupted."""
    gang = joined()
    if gang is not None and gang.rank > 0:
        from train.launch import follow_rank

        sys.exit(follow_rank(gang))
    try:
        sys.exit(command(sys.argv[1:], gang))
    except ConfigError as refusal:
        if gang is not None:
            from train.launch import refuse_others

            refuse_others(gang)
        sys.exit(refused(refusal))


def refused(refusal: ConfigError) -> int:
    """Show why a configuration cannot run; the exit code."""
    print(f"refused: {refusal}", file=sys.stderr)
    return 2


def command(argv: list[str], gang: Joined | None) -> int:
    """One command: compose and check all its jobs before the first starts, then run them."""
    line = parse(argv)
    if line.passthrough:
        hydra_api.run(run_job, line.argv)
        return 0
    sweep.refuse_in_gang(line, gang)
    jobs = compose_jobs(line)
    check_jobs(jobs)
    dry_run = any(job.config.dry_run for job in jobs)

    if dry_run or not line.multirun:
        from train.launch import follow_node
        from train.preflight import preflight

        for job in jobs:
            plan = preflight(job.config, gang, job.folder)
            if dry_run:
                print("\n".join([*plan.lines(), f"folder      {job.folder}", ""]))
            elif gang is None and plan.cluster.node_rank > 0:
                return follow_node(plan)
    if not dry_run:
        hydra_api.run(run_job, line.argv)
    return sweep.tell()


def run_job(config: DictConfig) -> float | None:
    """One job, in the folder that Hydra made for it: check it, start its ranks, await their end."""
    from train.launch import lead
    from train.preflight import preflight

    folder, in_sweep = hydra_api.current_job()
    gang = joined()
    try:
        code = lead(preflight(hydra_api.resolved(config), gang, folder), folder, gang)
    except ConfigError as refusal:
        code = sweep.refused(folder, refusal) if in_sweep else refused(refusal)
    return sweep.ended(folder, code) if in_sweep else sys.exit(code)


def train(
    config: DictConfig,
    folder: Path,
    cluster: Cluster,
    ranks: Ranks,
    data: Data,
    console: ConsoleStream,
    progress: Progress,
) -> None:
    """Train on one rank, from seeding to the final weights."""
    from components.cluster.ranks import all_agree, leave
    from components.data.loader import eval_batches, train_batches
    from components.model.objective import objective_of
    from components.optimizer import build_optimizer
    from components.parallel.activation_checkpointing import checkpoint_blocks
    from train.loop import Loop
    from train.record import Recorder
    from train.seeds import seed_init, seed_rank

    seed_init(config.seed)
    precision = build(config.precision, "precision")
    parallel = build(config.parallel, "parallel")
    checkpoint = build(config.checkpoint, "checkpoint")
    model = build(config.model, "model")
    checkpoint_blocks(model, config.activation_checkpointing)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    recorder = Recorder(config, folder, cluster, ranks, data, model, precision, parallel, console)

    make_optimizer = partial(build_optimizer, build(config.optimizer, "optimizer"))
    parallel.prepare(model, objective_of(model), make_optimizer, precision, ranks, config.clip_norm)
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
        data.train_set(),
        seed=config.seed,
        shuffle=data.shuffle,
        epoch_end=data.epoch_end,
        accumulation=config.accumulation,
        **cut,
    )
    val_set = data.val_set()
    with recorder.recording():
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
            max_skips=precision.max_consecutive_skips if precision.scaled else None,
            patience=config.patience,
            on_update=recorder.note_dtypes,
            progress=progress,
        )
        loop.run()
        batches.close()
        checkpoint.finish(folder, parallel, expected)
        recorder.complete(loop)
    parallel.close()
    leave()
