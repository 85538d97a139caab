"""From a strategy to how it computes, what it holds and what it sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from components.errors import ConfigError
from components.parallel.base import Parallel
from components.precision import Precision
from train.plan import traffic
from train.plan.facts import Facts
from train.plan.held.fsdp import Sharded
from train.plan.held.pipeline import Staged
from train.plan.held.replicated import Bucketed, CopiedIntoBuckets, Replicated
from train.plan.held.zero import zero_holding
from train.plan.holding import Holding, Share
from train.plan.paper import Spread
from train.plan.trace import Way
from train.plan.traffic import MIB, Message


@dataclass(frozen=True)
class Kind:
    """What the plan knows of a strategy.

    Attributes:
        half: whether it computes with half copies of masters.
        own_linear: whether it puts linear layers of its own in the place of torch's.
        holding: one rank's memory, from the strategy, its share and the model (None for a
            bare number of parameters).
        traffic: the messages of a step.
        spread: which parts the strategy divides among how many ranks, as papers count.
        unseen: what the plan goes without, on GPUs or not, for a reader.
        tied: whether a weight that several parts of the model share is one on a rank.
    """

    half: bool
    holding: Callable[[Any, Share, nn.Module | None], Holding]
    traffic: Callable[[Any, Share, int], list[Message]]
    spread: Callable[[Any, int], Spread]
    own_linear: Callable[[Any], bool] = lambda strategy: False
    unseen: Callable[[Any, bool], str] = lambda strategy, gpu: ""
    tied: bool = True

    def way(self, strategy: Parallel, precision: Precision, gpu: bool) -> Way:
        """How a step is computed under it."""
        return Way(precision, self.half, gpu, self.own_linear(strategy), self.tied)


def _ddp(ddp: Any, share: Share, model: nn.Module | None) -> Holding:
    kind = Bucketed if ddp.gradient_as_bucket_view else CopiedIntoBuckets
    return kind(share, ddp.bucket_cap_mb * MIB)


def _hook(ddp: Any, gpu: bool) -> str:
    if ddp.comm_hook is None:
        return ""
    return f"parallel.comm_hook={ddp.comm_hook}: planned without its copies, and as if it sent all"


def _one_gpu(dp: Any, gpu: bool) -> str:
    return "parallel=dp: planned on one GPU alone, whatever a node has" if gpu else ""


def _extra(zero: Any, gpu: bool) -> str:
    keys = ", ".join(zero.options.extra)
    return f"parallel.extra ({keys}): planned by its sizes of buckets alone" if keys else ""


def _zero(zero: Any, share: Share, model: nn.Module | None) -> Holding:
    stand_in = model or _Bare(share.facts)
    device = "cuda" if share.gpu else "cpu"
    config = zero.deepspeed_config(stand_in, share.precision, device, None)
    return zero_holding(share, zero, config)


def _pipeline(pipeline: Any, share: Share, model: nn.Module | None) -> Holding:
    if model is None:
        raise ConfigError(
            "parallel=pipeline deals out blocks, and model=parameters has none. Take a model, "
            "as model=llama_7b, or parallel=fsdp."
        )
    uses: dict[nn.Parameter, list[str]] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        uses.setdefault(p, []).append(name)
    by_name = {names[0]: tuple(names) for names in uses.values()}
    return Staged(share, pipeline.schedule, by_name)


class _Bare(nn.Module):
    """As many parameters as a bare number says, for settings that are sized to the model."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        import torch

        self.all = nn.Parameter(torch.empty(facts.parameters, device="meta"))


def _nothing(strategy: Parallel, share: Share, arriving: int) -> list[Message]:
    return []


KINDS: dict[str, Kind] = {
    "components.parallel.single.Single": Kind(
        False, lambda _, share, __: Replicated(share), _nothing, lambda _, world: Spread()
    ),
    "components.parallel.dp.DP": Kind(
        False,
        lambda _, share, __: Replicated(share),
        _nothing,
        lambda _, world: Spread(),
        unseen=_one_gpu,
    ),
    "components.parallel.ddp.DDP": Kind(
        False, _ddp, traffic.of_ddp, lambda _, world: Spread(), unseen=_hook
    ),
    "components.parallel.fsdp.FSDP": Kind(
        True,
        lambda fsdp, share, _: Sharded(share, fsdp),
        traffic.of_fsdp,
        lambda fsdp, world: Spread.all(world // fsdp.replicate),
    ),
    "components.parallel.zero.Zero": Kind(
        True,
        _zero,
        traffic.of_zero,
        lambda zero, world: Spread.stage(zero.options.stage, world),
        lambda zero: zero.options.stage == 3,
        unseen=_extra,
    ),
    "components.parallel.pipeline.Pipeline": Kind(
        False, _pipeline, traffic.of_pipeline, lambda _, world: Spread.all(world), tied=False
    ),
}
"""By class; a subclass is planned for as the nearest of these. By name, so that only a strategy
that is used is imported."""


def kind_of(parallel: Parallel) -> Kind:
    """What the plan knows of a strategy.

    Raises:
        ConfigError: for a strategy that it knows nothing of.
    """
    for cls in type(parallel).__mro__:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if name in KINDS:
            return KINDS[name]
    known = ", ".join(name.rpartition(".")[2] for name in KINDS)
    raise ConfigError(
        f"parallel={parallel.name}: the plan does not know what {type(parallel).__qualname__} "
        f"holds and sends. It knows {known} and what is derived from them; tell it of another in "
        "train/plan/strategies.py."
    )
