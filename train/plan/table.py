"""A plan for the terminal: one cell by parts, or several as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from train.check.table import duration
from train.plan.cells import PlannedCell, none_taken
from train.plan.fit import samples
from train.plan.names import planned, refusals
from train.plan.plan import Plan
from train.units import in_unit, said, unit_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 1000
"""Columns that a table may have: no figure is cut short to fit a terminal, which wraps lines."""

WORDS = {
    "params": "parameters",
    "buffers": "model's buffers",
    "grads": "gradients",
    "master": "fp32 masters",
    "optimizer": "optimizer state",
    "strategy_buffers": "strategy's buffers",
    "activations": "activations",
}


def print_plan(plan: Plan, file: TextIO) -> None:
    """One cell: what each part takes, what is left, what is sent, how long a step takes."""
    console = _console(file)
    for line in _heading(plan):
        _line(console, line)
    console.print()
    unit, name = unit_of(plan.per_rank["total_peak"])
    table = _table(f"{name} on a rank", "largest", "at the peak", "as papers count")
    for part, word in WORDS.items():
        if plan.per_rank[part] or plan.paper.get(part):
            paper = plan.paper.get(part)
            table.add_row(
                word,
                in_unit(plan.per_rank[part], unit),
                in_unit(plan.at_peak.get(part, 0), unit),
                "" if paper is None else in_unit(paper, unit),
            )
        if part == "activations" and plan.per_rank["logits"]:
            logits = in_unit(plan.per_rank["logits"], unit)
            table.add_row("  of which logits and loss", logits, "", "")
    total, paper = plan.per_rank["total_peak"], plan.paper["total"]
    table.add_row("total", "", in_unit(total, unit), in_unit(paper, unit))
    console.print(table)
    console.print()
    for line in _ends(plan):
        _line(console, line)


def _heading(plan: Plan) -> list[str]:
    cell = plan.cell
    lines = [
        f"parallel={cell['parallel']} precision={cell['precision']}, {_ranks(plan)}",
        f"{plan.parameters:,} parameters"
        + (f", {plan.trainable:,} of them trained" if plan.trainable != plan.parameters else ""),
    ]
    if plan.sizes is not None:
        size = plan.sizes
        lines.append(
            f"global batch {size['global_batch_size']} = micro-batch {size['micro_batch_size']} x "
            f"accumulation {size['accumulation']} x {size['dp_size']} data-parallel"
        )
    return lines


def _ranks(plan: Plan) -> str:
    cell = plan.cell
    return (
        f"{cell['world_size']:,} rank{'s' if cell['world_size'] > 1 else ''} "
        f"({cell['nodes']} x {cell['per_node']}), {cell['device']}"
    )


def _ends(plan: Plan) -> list[str]:
    lines = []
    if plan.moment:
        lines.append(f"peak        {plan.moment}")
    if plan.headroom is not None and plan.device_bytes is not None:
        size, all_of_it = said(abs(plan.headroom)), said(plan.device_bytes)
        left = f"{size} left of" if plan.headroom >= 0 else f"does not fit: {size} more than"
        lines.append(f"device      {left} {all_of_it}")
    if plan.largest_micro_batch is not None:
        lines.append(f"micro-batch {samples(plan.largest_micro_batch)} at the most")
    for message in plan.traffic:
        lines.append(
            f"traffic     {message['collective']} of {said(message['bytes'])} a step over "
            f"{message['ranks']:,} ranks, {said(message['sent_bytes'])} sent by each"
        )
    if plan.step_time_s is not None:
        how = "by the check" if plan.measured else "at the least"
        lines.append(f"step        {duration(plan.step_time_s)} {how}, MFU {plan.mfu:.2f}")
    if plan.step_parts_s is not None:
        parts = (f"{part} {duration(time)}" for part, time in plan.step_parts_s.items() if time)
        lines.append(f"            {', '.join(parts)}")
    return [*lines, *(f"note        {note}" for note in plan.notes)]


def print_cells(cells: Sequence[PlannedCell], file: TextIO) -> None:
    """Several cells as rows, the best marked, and why the others are not there."""
    console = _console(file)
    rows = planned(cells)
    plans = [row.plan for row in rows]
    if rows:
        _line(console, heading_of(plans))
        console.print()
        unit, unit_name = unit_of(max(plan.per_rank["total_peak"] for plan in plans))
        batches = several_batches(plans)
        table = _table(
            *(unit_name, "ranks", *(["batch"] if batches else []), *_SHORT.values()),
            *("peak", "left", "largest", "step"),
        )
        for cell, name, plan in rows:
            left = "" if plan.headroom is None else in_unit(plan.headroom, unit)
            step = "" if plan.step_time_s is None else duration(plan.step_time_s)
            largest = plan.largest_micro_batch
            table.add_row(
                f"{'* ' if cell.best else '  '}{name.line}",
                f"{plan.cell['world_size']:,}",
                *(
                    [f"{plan.sizes['global_batch_size']:,}" if plan.sizes else ""]
                    if batches
                    else []
                ),
                *(in_unit(plan.per_rank[part], unit) for part in _SHORT),
                in_unit(plan.per_rank["total_peak"], unit),
                left,
                "" if largest is None else samples(largest),
                step,
            )
        console.print(table)
        console.print()
        _line(
            console,
            "the largest that each part becomes, at different moments, on the rank that needs the "
            "most; buffers are the strategy's; largest: micro-batch that fits",
        )
        for note in notes_of(plans):
            _line(console, f"note        {note}")
    for cell, name, _ in rows:
        if cell.best:
            _line(console, f"take        {name.words}: {cell.reason}")
    if rows and not any(cell.best for cell in cells):
        none, cure = none_taken(plans)
        _line(console, f"take        {none}: {cure}")
    for refusal, who in refusals(cells).items():
        _line(console, f"refused     {'; '.join(who)}: {refusal}")


_SHORT = {
    "params": "params",
    "grads": "grads",
    "master": "masters",
    "optimizer": "optim",
    "strategy_buffers": "buffers",
    "activations": "activ",
}


def heading_of(plans: Sequence[Plan]) -> str:
    """What is planned for, as far as the plans share it."""
    models = {plan.parameters for plan in plans}
    size = f"{min(models):,}" if len(models) == 1 else f"{min(models):,} to {max(models):,}"
    devices = dict.fromkeys(plan.cell["device"] for plan in plans)
    return f"{size} parameters, {', '.join(devices)}"


def several_batches(plans: Sequence[Plan]) -> bool:
    """Whether steps take different numbers of samples, so that their times are no comparison."""
    return len({plan.sizes["global_batch_size"] for plan in plans if plan.sizes}) > 1


def notes_of(plans: Sequence[Plan]) -> list[str]:
    """Each note once."""
    return list(dict.fromkeys(note for plan in plans for note in plan.notes))


def _line(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True)


def _console(file: TextIO) -> Console:
    from rich.console import Console

    return Console(file=file, width=WIDTH, highlight=False, emoji=False, markup=False)


def _table(first: str, *others: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="")
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right")
    return table
