"""A run's memory, traffic and time on each rank, worked out before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from omegaconf import DictConfig
from torch import nn

from components.device import Device
from components.parallel.base import Parallel
from components.precision import Precision
from train import sizes
from train.cell import cell_of, refuse_several, sizes_of
from train.kinds import build_kind, build_parallel
from train.plan.activations import Activations
from train.plan.fit import largest_fitting
from train.plan.held.pipeline import hidden_bytes
from train.plan.holding import Holding, Share
from train.plan.paper import paper_bytes
from train.plan.place import Place
from train.plan.seconds import compute_seconds, model_flop, rate, update_seconds
from train.plan.strategies import kind_of
from train.plan.subject import subject_of
from train.plan.trace import Event
from train.plan.traffic import Message, latency
from train.units import said


@dataclass(frozen=True)
class Plan:
    """What a step of a run takes on the rank that needs the most; plain data.

    Attributes:
        cell: `precision`, `parallel`, `nodes`, `per_node`, `world_size`, `device`.
        parameters, trainable: of the model, shared ones once.
        sizes: `global_batch_size`, `micro_batch_size`, `accumulation`, `dp_size` of a step; None
            for a bare number of parameters.
        per_rank: the largest that each part becomes, bytes; `logits` is a part of `activations`,
            `total_peak` the largest sum of all, which is less than the sum of the largest.
        at_peak: the parts at the moment of the largest sum.
        moment: when that is.
        paper: bytes as the ZeRO paper counts them, by part, and their `total`.
        device_bytes: memory of the device; None where none is named.
        largest_micro_batch: samples of the largest micro-batch that fits; 0 when none does, None
            without a device or a model.
        traffic: messages of a step: `collective`, `bytes`, `sent_bytes` by each rank, `ranks`.
        step_time_s: the least that a step takes; None without a device or a model, or where the
            device has no units for the type.
        step_parts_s: what that is made of: `compute`, `wait` for links beyond what computing
            hides, `update` of the optimizer, `overhead` of the strategy's copies and code; None as
            above.
        mfu: FLOP of the model's forward and backward, without what checkpointing computes again,
            over what the device could compute in that time at its best in the type.
        notes: what a reader has to know besides.
        measured: whether times are by a check of a machine; else they are the least possible.
    """

    cell: dict[str, Any]
    parameters: int
    trainable: int
    sizes: dict[str, int] | None
    per_rank: dict[str, int]
    at_peak: dict[str, int]
    moment: str
    paper: dict[str, float]
    device_bytes: int | None
    largest_micro_batch: int | None
    traffic: list[dict[str, Any]]
    step_time_s: float | None
    step_parts_s: dict[str, float] | None
    mfu: float | None
    notes: tuple[str, ...]
    measured: bool = False

    @property
    def headroom(self) -> int | None:
        """Bytes of the device that are left at the peak; negative when it does not fit."""
        return (
            None if self.device_bytes is None else self.device_bytes - self.per_rank["total_peak"]
        )

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "headroom": self.headroom}


def plan(config: DictConfig, place: Place, activations: Activations, largest: bool = True) -> Plan:
    """Plan one cell.

    Args:
        config: resolved, every `_target_` checked already.
        place: how many ranks, on what.
        activations: traces so far; new ones are added.
        largest: whether the largest micro-batch that fits is looked for.

    Raises:
        ConfigError: for what a run of this config is refused for, and for a model that cannot be
            run on shapes alone.
    """
    precision: Precision = build_kind(Precision, config.precision, "precision")
    parallel = build_parallel(config)
    kind = kind_of(parallel)
    gpu = place.device_kind == "cuda"
    subject = subject_of(config, precision, kind.way(parallel, precision, gpu), activations)
    step, notes = None, subject.notes
    if subject.model is not None:
        step, said = _sizes(config, parallel, precision, place, subject.model)
        notes += said
    share = subject.share(config, precision, place.world_size, step, gpu)
    holding = subject.held(kind, parallel, share)
    device = place.device
    logits = 0
    events: list[Event] = []
    if subject.timeline is not None:
        events = subject.timeline.at(share.rows)
        logits = logits_bytes(events)
    traffic = kind.traffic(parallel, share, hidden_bytes(events))
    messages = holding.overhead.messages
    traffic = [replace(m, calls=messages[m.collective] or m.calls) for m in traffic]
    parts, mfu = _time(share, place, events, traffic, holding)
    most = None
    if largest and place.memory_bytes is not None and subject.timeline is not None:
        most = largest_fitting(
            place.memory_bytes,
            lambda rows: subject.held(kind, parallel, replace(share, rows=rows)).peak.total,
        )
    state = share.optimizer.matrix
    return Plan(
        cell={
            "precision": precision.name,
            "parallel": parallel.name,
            "nodes": place.nodes,
            "per_node": place.per_node,
            "world_size": place.world_size,
            "device": device.name if device else place.device_kind,
        },
        parameters=subject.facts.parameters,
        trainable=subject.facts.trainable,
        sizes=asdict(step) if step else None,
        per_rank={**holding.most, "logits": logits, "total_peak": holding.peak.total},
        at_peak=holding.peak.parts,
        moment=holding.peak.moment,
        paper=paper_bytes(
            subject.facts.parameters,
            subject.facts.trainable,
            precision.mixed,
            kind.spread(parallel, place.world_size),
            state,
        ),
        device_bytes=place.memory_bytes,
        largest_micro_batch=most,
        traffic=[
            {
                "collective": m.collective,
                "bytes": m.size,
                "sent_bytes": round(m.sent),
                "ranks": m.ranks,
            }
            for m in traffic
        ],
        step_time_s=sum(parts.values()) if parts else None,
        step_parts_s=parts,
        mfu=mfu,
        notes=(
            *notes,
            *_about_strategy(kind.unseen(parallel, gpu), holding.outside),
            *_about_types(precision, device),
            *_about_network(place),
        ),
        measured=device is not None and device.measured,
    )


def _sizes(
    config: DictConfig, parallel: Parallel, precision: Precision, place: Place, model: nn.Module
) -> tuple[sizes.Sizes, tuple[str, ...]]:
    """The sizes of a step. Where the user gave none and the default does not divide, the least.

    Raises:
        ConfigError: for what a run is refused for.
    """
    asking = f"cluster.nproc_per_node={place.per_node} and cluster.nnodes={place.nodes} ask for"
    refuse_several(parallel, place.world_size, asking)
    cell = cell_of(config, precision, place.device_kind, place.world_size, place.per_node, model)
    degree = parallel.dp_degree(place.world_size)
    accumulation = parallel.default_accumulation(place.world_size)
    if place.sizes_given or config.global_batch_size % (degree * accumulation) == 0:
        return sizes_of(config, parallel, cell), ()
    parallel.check(cell)
    step = sizes.solve(None, 1, accumulation, degree, accumulation)
    note = (
        f"global_batch_size={config.global_batch_size}, the default, does not divide over "
        f"{place.world_size:,} ranks of parallel={parallel.name}, which takes "
        f"{degree * accumulation:,} micro-batches or a multiple: planned with micro_batch_size=1, "
        f"that is global_batch_size={step.global_batch_size}"
    )
    return step, (note,)


def logits_bytes(events: Sequence[Event]) -> int:
    """The model's outputs, their fp32 copy and the loss's own of them, bytes."""
    out = next((at for at, event in enumerate(events) if event[0] == "outputs"), 0)
    loss = next((at for at, event in enumerate(events) if event[0] == "loss"), 0)
    returned = next((size for kind, _, size, _ in reversed(events[:out]) if kind == "+"), 0)
    return returned + sum(
        size if kind == "+" else -size for kind, _, size, _ in events[out:loss] if kind in "+-"
    )


def _time(
    share: Share,
    place: Place,
    events: list[Event],
    traffic: list[Message],
    holding: Holding,
) -> tuple[dict[str, float] | None, float | None]:
    """Seconds of a step by part, and MFU."""
    device = place.device
    if device is None or not events:
        return None, None
    once = [compute_seconds(piece, device, share.precision) for piece in holding.stages(events)]
    stages = [seconds for seconds in once if seconds is not None]
    if len(stages) < len(once):
        return None, None
    # One micro-batch passes them all; the others follow as the slowest lets them.
    compute = sum(stages) + max(stages) * (share.accumulation - 1)
    # On a CPU what sends takes the cores of what computes.
    beside = place.device_kind == "cuda"
    hidden = sum(m.seconds(device, place.per_node) for m in traffic if m.hidden and beside)
    waited = sum(m.seconds(device, place.per_node) for m in traffic if not (m.hidden and beside))
    waited += holding.overhead.scalars * latency("all-reduce", device)
    attained = device.attained.get(share.precision.compute_dtype, 1.0)
    parts = {
        "compute": compute,
        "wait": max(hidden - compute, 0.0) + waited,
        "update": update_seconds(holding.updated(), share.optimizer.matrix, device),
        "overhead": holding.overhead.seconds(device, attained),
    }
    peak = rate(device, share.precision.compute_dtype, share.precision)
    assert peak is not None
    flop = model_flop(events) * share.accumulation / len(stages)
    return parts, flop / sum(parts.values()) / peak


def _about_strategy(unseen: str, outside: int) -> Iterator[str]:
    if unseen:
        yield unseen
    if outside:
        yield (
            f"{said(outside)} of a rank lie outside its device, as parallel.offload_* say; no time "
            "is counted for their travel, nor for an update on the CPU"
        )


def _about_network(place: Place) -> Iterator[str]:
    device = place.device
    if device is not None and place.nodes > 1 and not device.knows_network:
        yield (
            f"{device.name} was checked on one node: links between nodes are taken for as fast as "
            "those within, and waits are too short. Check where the run will be, on several nodes"
        )


def _about_types(precision: Precision, device: Device | None) -> tuple[str, ...]:
    if device is None or not precision.mixed or precision.compute_dtype in device.flops:
        return ()
    return (f"{device.name} has no units for {precision.compute_dtype}: no time is estimated",)
