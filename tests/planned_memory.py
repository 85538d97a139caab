"""What the plan says of a case that was measured, and by how much it is off."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from components.objective import CrossEntropy
from components.parallel.activation_checkpointing import checkpoint_blocks
from tests.gang import STRATEGIES
from tests.measured_memory import ADAMW, Case, nano
from train.plan.facts import facts_of
from train.plan.holding import PARTS, Holding, Share
from train.plan.optimizer_cost import cost_of
from train.plan.strategies import kind_of
from train.plan.trace import Event, Sample, Way, trace


def planned(case: Case, world_size: int, gpu: bool = False) -> Holding:
    """One rank's memory over a step, as planned."""
    model = _model(tuple(case.sizes.items()), case.checkpointing)
    ids = _ids(case.tokens or model.seq_len)
    strategy = STRATEGIES[case.word]()
    kind = kind_of(strategy)
    share = Share(
        facts_of(model),
        case.precision,
        world_size,
        cost_of(ADAMW),
        2 * ids.nbytes,
        case.rows,
        case.accumulation,
        gpu,
    )
    holding = kind.holding(strategy, share, model)
    holding.run(planned_events(case, gpu))
    return holding


def planned_events(case: Case, gpu: bool = False) -> Sequence[Event]:
    """Of a micro-batch, as traced."""
    strategy = STRATEGIES[case.word]()
    way = kind_of(strategy).way(strategy, case.precision, gpu)
    sizes = tuple(case.sizes.items())
    tokens = case.tokens or _model(sizes, case.checkpointing).seq_len
    return _events(sizes, case.checkpointing, tokens, case.rows, way)


@cache
def _model(sizes: tuple[tuple[str, Any], ...], checkpointing: Any) -> Any:
    with torch.device("meta"):
        model: nn.Module = nano(**dict(sizes))
    checkpoint_blocks(model, checkpointing)
    return model


@cache
def _events(
    sizes: tuple[tuple[str, Any], ...], checkpointing: Any, tokens: int, rows: int, way: Way
) -> Sequence[Event]:
    ids = _ids(tokens)
    return trace(_model(sizes, checkpointing), CrossEntropy(), Sample(ids, ids), rows, way)


def _ids(tokens: int) -> torch.Tensor:
    return torch.empty(tokens, dtype=torch.int64, device="meta")


def compared(case: Case, world_size: int, real: dict[str, Any]) -> dict[str, float]:
    """The plan's relative error by part, and of the `total`; parts that are not there left out."""
    plan = planned(case, world_size)
    errors = {
        part: plan.most[part] / real["most"][part] - 1 if real["most"][part] else float("inf")
        for part in PARTS
        if plan.most[part] or real["most"][part]
    }
    return {**errors, "total": plan.peak.total / real["peak"] - 1}
