"""Train through the real data order, optimizer groups, schedule and loop, without a shell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from components.cluster.ranks import Ranks, all_agree
from components.data.base import Data
from components.data.loader import eval_batches, train_batches
from components.objective import objective_of
from components.optimizer import build_optimizer
from components.parallel.base import Parallel
from components.parallel.gate import Gate
from components.precision import Precision
from tests.gang import FP32, STRATEGIES
from train.loop import Loop, Progress
from train.meter import Meter, Scale
from train.seeds import seed_init, seed_rank


def plain_sgd(params: Any) -> torch.optim.Optimizer:
    """w becomes w - gradient: what the weights show is the gradient."""
    return torch.optim.SGD(params, lr=1.0)


@dataclass(frozen=True)
class Task:
    """What is trained, apart from how it is spread.

    Attributes:
        model, data: makers, called on each rank.
        global_batch: samples of a step, over all ranks.
        accumulation: micro-batches of a step on each rank; a pipeline's stages need two.
        optimizer: takes parameter groups, as an optimizer class does.
        gate: judges steps, where a run is stopped and gone on with.
    """

    model: Callable[[], nn.Module]
    data: Callable[[], Data]
    global_batch: int
    steps: int
    accumulation: int = 1
    optimizer: Callable[..., torch.optim.Optimizer] = plain_sgd
    schedule: Callable[[torch.optim.Optimizer], LRScheduler] | None = None
    precision: Precision = FP32
    clip_norm: float | None = None
    log_every: int = 1
    eval_every: int = 0
    max_skips: int = 25
    gate: Callable[[], Gate] = Gate

    def but(self, **changes: Any) -> Task:
        """The same with changes."""
        return replace(self, **changes)


@dataclass
class Result:
    """What one rank tells of a training.

    Attributes:
        records: of training and evaluation, as they would stand in metrics.jsonl.
        weights: by plain name; empty but on rank 0.
        start: the weights before the first step.
        held: dtypes of what is held, by purpose, and the type of the reduction.
        own: the parameters as this rank holds them, or its shards.
        optimizer_elements: elements of the optimizer's state on this rank, its counters left out.
        samples, updates: counted samples of this rank, and steps that changed the weights.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    start: dict[str, Tensor] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    own: list[Tensor] = field(default_factory=list)
    optimizer_elements: int = 0
    samples: int = 0
    updates: int = 0

    def column(self, name: str) -> list[Any]:
        """The values of one metric, from the records that have it."""
        return [record[name] for record in self.records if name in record]

    @property
    def losses(self) -> list[float]:
        return self.column("train/loss")

    @property
    def norms(self) -> list[float]:
        return self.column("train/grad_norm")


def fit(
    ranks: Ranks,
    strategy: Parallel | str,
    task: Task,
    before: Callable[[Parallel], None] = lambda _: None,
) -> Result:
    """Train on this rank.

    Args:
        strategy: itself, or its word on the command line.
        before: called once the strategy is prepared; the place to meddle with it.
    """
    if isinstance(strategy, str):
        strategy = STRATEGIES[strategy]()
    seed_init(0)
    model, data = task.model(), task.data()
    result = Result(start={k: v.clone() for k, v in model.state_dict().items()})
    make_optimizer = partial(build_optimizer, task.optimizer)
    strategy.prepare(
        model, objective_of(model), make_optimizer, task.precision, ranks, task.clip_norm
    )
    schedule = task.schedule or partial(LambdaLR, lr_lambda=lambda _: 1.0)
    scheduler = schedule(strategy.optimizer)
    seed_rank(0, ranks.rank)
    micro, left = divmod(task.global_batch, strategy.dp_size * task.accumulation)
    assert not left, "the global batch must divide into micro-batches"
    cut: dict[str, Any] = {
        "micro_batch_size": micro,
        "dp_rank": strategy.dp_rank,
        "dp_size": strategy.dp_size,
        "num_workers": data.num_workers,
        "agree": partial(all_agree, ranks),
    }
    batches = train_batches(
        data.train_set(),
        seed=0,
        shuffle=data.shuffle,
        epoch_end=data.epoch_end,
        accumulation=task.accumulation,
        **cut,
    )
    val_set = data.val_set()
    loop = Loop(
        parallel=strategy,
        scheduler=scheduler,
        batches=batches,
        validation=None if val_set is None else partial(eval_batches, val_set, **cut),
        derive=data.derive,
        meter=Meter(Scale(), lambda samples: samples),
        report=result.records.append,
        steps=task.steps,
        log_every=task.log_every,
        eval_every=task.eval_every,
        max_skips=task.max_skips if task.precision.scaled else None,
        patience=None,
        on_update=lambda: None,
        progress=Progress(),
    )
    before(strategy)
    loop.run()
    batches.close()
    result.samples, result.updates = loop.meter.samples, loop.meter.updates
    held = strategy.held()
    result.held = {**held.dtypes(), "reduce": strategy.reduce_dtype()}
    result.own = [p.detach().clone() for p in held.params]
    result.optimizer_elements = sum(t.numel() for t in held.optimizer if t.dim() > 0)
    result.weights = strategy.full_weights()
    strategy.close()
    return result


def fit_all(ranks: Ranks, names: tuple[str, ...], tasks: dict[str, Task]) -> dict[Any, Result]:
    """Every task under every strategy, in one gang, by (strategy, task).

    A pipeline's step has at least two micro-batches for its two stages.
    """
    results = {}
    for name in names:
        for word, task in tasks.items():
            if name == "pipeline":
                task = task.but(accumulation=max(2, task.accumulation))
            results[name, word] = fit(ranks, name, task)
    return results
