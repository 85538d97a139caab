"""The table of all numbers: sortable in the page, complete without a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from train.compare.report.markup import MISSING, escape, sortable
from train.compare.report.numbers import PLAIN, WHOLE, Scale, significant, time_scale
from train.plan.cells import per_sample
from train.plan.names import Planned
from train.plan.page.payload import FITS, TIGHT, TOO_LARGE, state_of
from train.plan.plan import Plan
from train.plan.table import WORDS
from train.units import unit_of

BADGES = {
    FITS: ("completed", "✓"),
    TIGHT: ("mixed", "!"),
    TOO_LARGE: ("failed", "✕"),
}
"""The style sheet's class for a state, and a sign, as colour alone does not tell."""


@dataclass(frozen=True)
class Column:
    """One column: its head, what it holds, how that is written, and where it stands in a plan."""

    title: str
    explanation: str
    scale: Callable[[Sequence[float]], Scale]
    value: Callable[[Plan], float | None]


def cell_table(rows: Sequence[Planned]) -> str:
    """The table, without the columns that are empty everywhere."""
    plans = [row.plan for row in rows]
    columns = [
        (column, column.scale(values))
        for column in COLUMNS
        if any(values := [v for plan in plans if (v := column.value(plan)) is not None])
    ]
    heads = sortable("cell") + sortable("state")
    heads += "".join(
        sortable(column.title, "number", scale.unit, column.explanation)
        for column, scale in columns
    )
    body = []
    for number, (cell, name, plan) in enumerate(rows):
        numbers = "".join(_number(plan, column, scale) for column, scale in columns)
        mark = '<span class="tag">take</span>' if cell.best else ""
        body.append(
            f'<tr data-row="{number}"><th scope="row" data-sort="{escape(name.cell)}">'
            f'<div class="name"><span class="swatch"></span>{escape(name.cell)}{mark}</div></th>'
            f"{_state(state_of(plan))}{numbers}</tr>"
        )
    return (
        f'<table class="cells"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _state(state: str) -> str:
    kind, sign = BADGES[state]
    badge = f'<span class="badge {kind}"><i>{sign}</i>{state}</span>'
    return f'<td data-sort="{state}">{badge}</td>'


def _number(plan: Plan, column: Column, scale: Scale) -> str:
    value = column.value(plan)
    if value is None:
        return f'<td class="number missing">{MISSING}</td>'
    return f'<td class="number" data-sort="{value!r}">{escape(scale.text(value))}</td>'


def _whole(values: Sequence[float]) -> Scale:
    return WHOLE


def _plain(values: Sequence[float]) -> Scale:
    return PLAIN


def _bytes(values: Sequence[float]) -> Scale:
    """Of 1000, as a device's data sheet has them."""
    factor, unit = unit_of(max(map(abs, values)))
    return Scale(unit, factor, lambda value: significant(value, 3))


def _where(key: str) -> Callable[[Plan], float | None]:
    return lambda plan: plan.cell[key]


def _size(key: str) -> Callable[[Plan], float | None]:
    return lambda plan: plan.sizes[key] if plan.sizes else None


def _largest(part: str) -> Callable[[Plan], float | None]:
    return lambda plan: plan.per_rank[part]


def _seconds(part: str) -> Callable[[Plan], float | None]:
    return lambda plan: plan.step_parts_s[part] if plan.step_parts_s else None


def _samples_per_s(plan: Plan) -> float | None:
    seconds = per_sample(plan)
    return None if seconds is None else 1 / seconds


COLUMNS = (
    Column("ranks", "Ranks in all", _whole, _where("world_size")),
    Column("nodes", "Nodes", _whole, _where("nodes")),
    Column("global batch", "Samples of a step", _whole, _size("global_batch_size")),
    Column("micro-batch", "Samples of a forward on a rank", _whole, _size("micro_batch_size")),
    Column("accumulation", "Micro-batches of a step on a rank", _whole, _size("accumulation")),
    *(
        Column(word, "The largest that it becomes on the rank", _bytes, _largest(part))
        for part, word in WORDS.items()
    ),
    Column("peak", "The largest sum of all", _bytes, _largest("total_peak")),
    Column("left", "Of the device at the peak", _bytes, lambda plan: plan.headroom),
    Column("largest micro-batch", "That fits", _whole, lambda plan: plan.largest_micro_batch),
    Column(
        "sent",
        "By each rank in a step",
        _bytes,
        lambda plan: sum(message["sent_bytes"] for message in plan.traffic),
    ),
    Column("compute", "Forward and backward of a step", time_scale, _seconds("compute")),
    Column("wait", "For links, beyond what computing hides", time_scale, _seconds("wait")),
    Column("update", "Of the optimizer", time_scale, _seconds("update")),
    Column("overhead", "The strategy's copies and code", time_scale, _seconds("overhead")),
    Column("step", "Of a step in all", time_scale, lambda plan: plan.step_time_s),
    Column("per sample", "A step by its samples", time_scale, per_sample),
    Column("samples/s", "Over all ranks", _plain, _samples_per_s),
    Column("MFU", "Model FLOP over the device's best", _plain, lambda plan: plan.mfu),
)
